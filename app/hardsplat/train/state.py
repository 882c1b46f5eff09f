"""What a run consists of, for the modules that keep, measure and report it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hardsplat.config import TrainConfig
from hardsplat.gpu.context import Device
from hardsplat.io.scene import Scene
from hardsplat.parts import Parts
from hardsplat.train.report import Log, metrics_of
from hardsplat.train.results import Results
from hardsplat.train.session import Session
from hardsplat.train.stop import StopRequest


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
    clock: Parts
    stop: StopRequest
    trials: list[dict]

    @contextmanager
    def aside(self, part: str) -> Iterator[None]:
        """With nothing in flight: time that is not training but another part of the run."""
        with self.log.aside(), self.clock.within(part):
            yield

    def metrics(self) -> dict:
        """What metrics.json will hold, but for the seconds of the parts, as far as it is known by now."""
        return metrics_of(
            self.folder, self.config, self.device, self.session, self.log, self.trials
        )
