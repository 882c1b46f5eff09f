"""Observers of a run: windows, browsers, logs, callbacks. The trainer calls them when something
happens, and gives them a turn between batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import Scene
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.measure import Measured
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log


class Running(Protocol):
    """A run as a watcher sees it in its turn. device, session: from the first splats on."""

    device: Device
    scene: Scene
    session: Session
    folder: Path
    log: Log

    @property
    def config(self) -> TrainConfig: ...
    def save(self) -> None: ...  # a checkpoint and splats.ply, now
    def stop(self) -> None: ...  # ends the run after this turn, as after its last step
    def example(self) -> Measured | None: ...  # the first held-out view, measured now, if any


class Watcher:
    """Does nothing; watchers overwrite what they need. All of it is called in the thread that
    trains.

    What goes wrong with a watcher is its own affair, but for a lost device: an exception ends the
    run.
    """

    surfaces: Sequence[str] = ()  # instance extensions that the device must be opened with
    batch_seconds = math.inf  # how long a batch may take while it is `shown`

    @property
    def shown(self) -> bool:
        """Whether there is something to be seen, so that batches must be short."""
        return False

    @property
    def paused(self) -> bool:
        """Whether there are to be no batches at all."""
        return False

    @property
    def lingering(self) -> bool:
        """Whether the run, whose files are written, is to be kept for more turns."""
        return False

    def open(self, run: Running) -> None:
        """Before the first step."""

    def turn(self, run: Running, wait: bool = False) -> None:
        """Between batches, which may still be in flight. wait: nothing else happens, so events may
        be waited for as long as a frame lasts."""

    def batch(self, run: Running) -> None:
        """A batch is done: its figures are the last ones of `run.log`. The session must be left
        alone."""

    def measured(self, run: Running, result: dict, example: Measured) -> None:
        """Held-out views were measured: `result` is what metrics.json has of them, `example` the
        first of them."""

    def close(self) -> None:
        """Before the session is destroyed."""


class Watchers:
    """Several of them as one, which are given the run that they were opened with."""

    def __init__(self, watchers: Sequence[Watcher] = ()):
        self._all = tuple(watchers)
        self.surfaces = tuple(dict.fromkeys(name for each in watchers for name in each.surfaces))

    @property
    def batch_seconds(self) -> float:
        return min((each.batch_seconds for each in self._all if each.shown), default=math.inf)

    @property
    def paused(self) -> bool:
        return any(watcher.paused for watcher in self._all)

    @property
    def lingering(self) -> bool:
        return any(watcher.lingering for watcher in self._all)

    def open(self, run: Running) -> None:
        self._run = run
        for watcher in self._all:
            watcher.open(run)

    def turn(self, wait: bool = False) -> None:
        for watcher in self._all:
            watcher.turn(self._run, wait)

    def batch(self) -> None:
        for watcher in self._all:
            watcher.batch(self._run)

    def measured(self, result: dict, example: Measured) -> None:
        for watcher in self._all:
            watcher.measured(self._run, result, example)

    def close(self) -> None:
        """Closes each of them, whatever the others raise. They are not called again."""
        with ExitStack() as stack:
            for watcher in self._all:
                stack.callback(watcher.close)
            self._all = ()
