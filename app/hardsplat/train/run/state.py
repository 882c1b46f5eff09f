"""What a run consists of, for the modules that keep, measure and report it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hardsplat.base.clock import PhaseClock
from hardsplat.base.stop import StopRequest
from hardsplat.base.version import __version__
from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import Scene
from hardsplat.settings.train import TrainConfig
from hardsplat.train.run.results import Results
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log


@dataclass
class RunState:
    """A run from its first splats on.

    config: the settings as they are by now. trials: see Auto.
    """

    config: TrainConfig
    scene: Scene
    folder: Path
    device: Device
    session: Session
    log: Log
    results: Results
    clock: PhaseClock
    stop: StopRequest
    trials: list[dict]

    @contextmanager
    def aside(self, part: str) -> Iterator[None]:
        """With nothing in flight: time that is not training but another part of the run."""
        with self.log.aside(), self.clock.within(part):
            yield

    def metrics(self) -> dict:
        """All numbers of the run as far as they are known by now, in a stable schema: metrics.json,
        but for the seconds of its parts."""
        config, session, log, physical = self.config, self.session, self.log, self.device.physical
        stages = log.stage_means()
        return {
            "hardsplat": __version__,
            "scene": str(config.scene.data_dir or self.folder.name),
            "device": {
                "name": self.device.name,
                "driver": physical.driver,
                "kind": physical.kind,
                "host": platform.platform(),
            },
            "rasterizer": config.raster.rasterizer,
            "auto": list(self.trials),
            "variants": session.raster.rows.names,
            "steps": session.step,
            "splats": session.count(),
            "seconds": {"startup": log.startup_seconds, "training": log.training_seconds},
            "steps_per_second": session.step / log.training_seconds
            if log.training_seconds
            else None,
            "clipped_steps": session.clipped_steps,
            "gpu_idle": log.gpu_idle,
            "stage_ms": stages,
            "step_ms": sum(stages.values()),
            "memory_bytes": session.memory(),
            "evaluations": log.evaluations,
            "overfit": log.overfit,
            "curve": {
                "step": log.steps,
                "loss": log.losses,
                "psnr": log.psnrs,
                "splats": log.splats,
                "seconds": log.seconds,
            },
        }
