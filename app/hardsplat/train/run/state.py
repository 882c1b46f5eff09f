"""What a run consists of, for the modules that keep, measure and report it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hardsplat.base.clock import PhaseClock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.base.version import __version__
from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import Scene
from hardsplat.settings.presets import SAVED_NAME, save_config
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.facts import Facts
from hardsplat.train.job.job import Job
from hardsplat.train.run.files import RunFiles
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log
from hardsplat.train.watchers.watch import Watchers


@dataclass
class RunState:
    """A run from its first splats on. trials: see RasterizerTuner. given, facts: what the job was
    decided by. stopped: by a watcher."""

    scene: Scene
    folder: Path
    device: Device
    session: Session
    log: Log
    files: RunFiles
    clock: PhaseClock
    stop: StopRequest
    watchers: Watchers
    trials: list[dict]
    given: TrainConfig
    facts: Facts
    bar: Bar | None = None
    stopped: bool = False

    @property
    def job(self) -> Job:
        return self.session.job

    @property
    def ending(self) -> bool:
        """Whether the run is to end before its next batch."""
        return bool(self.stop.asked or self.stopped)

    @contextmanager
    def off_clock(self, phase: str) -> Iterator[None]:
        """With nothing in flight: time that is not training but another phase of the run."""
        with self.log.off_clock(), self.clock.within(phase):
            yield

    def save_settings(self) -> None:
        """Saves the settings that repeat the run, which a resumed one must end by as well."""
        save_config(self.job.resolved(self.session.rasterizer), self.folder / SAVED_NAME)

    def metrics(self) -> dict:
        """All numbers of the run as far as they are known by now, in a stable schema: metrics.json,
        but for the seconds of its phases."""
        session, log, physical = self.session, self.log, self.device.physical
        stages, seconds = log.stage_means(), log.training_seconds
        return {
            "hardsplat": __version__,
            "scene": str(self.job.config.scene.data_dir or self.folder.name),
            "device": {
                "name": self.device.name,
                "driver": physical.driver,
                "kind": physical.kind,
                "host": platform.platform(),
            },
            "rasterizer": session.rasterizer,
            "auto": list(self.trials),
            "variants": session.raster.rows.names,
            "steps": session.step,
            "wanted": self.session.schedule.steps,
            "splats": session.count(),
            "seconds": {"startup": log.startup_seconds, "training": seconds},
            "steps_per_second": session.step / seconds if seconds else None,
            "clipped_steps": session.pairs.clipped_steps,
            "gpu_idle": log.gpu_idle,
            "stage_ms": stages,
            "step_ms": sum(stages.values()),
            "memory_bytes": session.memory(),
            "memory_peak": self.device.memory_peak(),
            "evaluations": log.evaluations,
            "validation": {
                "looks": [each._asdict() for each in log.looks],
                "settled": log.settled or None,
                "color_gains": log.color_gains,
            },
            "decisions": log.decisions,
            "curve": {
                "step": log.steps,
                "loss": log.losses,
                "psnr": log.psnrs,
                "splats": log.splats,
                "seconds": log.seconds,
            },
        }
