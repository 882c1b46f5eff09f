"""Observers of a run: windows, browsers, logs, callbacks. The trainer calls them when something
happens, and gives them a turn between batches."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory, UserError, reason
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.instance import ValidationError
from hardsplat.io.scenes.scene import Scene
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.measure import Measured
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log

T = TypeVar("T")
FATAL = (DeviceLost, OutOfMemory, ValidationError)  # the training cannot continue


class Running(Protocol):
    """A run as a watcher sees it in its turn. device, session: from the first splats on."""

    device: Device
    scene: Scene
    session: Session
    folder: Path
    log: Log

    @property
    def config(self) -> TrainConfig: ...
    @property
    def ending(self) -> bool: ...  # whether there is no further batch, by a wish to stop
    def save(self) -> None: ...  # a checkpoint and splats.ply, now
    def stop(self) -> None: ...  # ends the run after this turn, as after its last step
    def example(self) -> Measured | None: ...  # the first held-out view, measured now, if any


class Watcher:
    """Does nothing; watchers overwrite what they need. All of it is called in the thread that
    trains.

    title: its name in notes. What one raises, but for a device that is lost or full, switches it
    off with a note, and the training continues. A UserError of `open` ends the run instead.
    """

    title = ""
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

    def begin_again(self, run: Running) -> None:
        """The run goes back to its first step: its history is forgotten."""

    def turn(self, run: Running, wait: bool = False) -> None:
        """Between batches, which may still be in flight. wait: nothing else happens, so events may
        be waited for as long as a frame lasts."""

    def answer(self, run: Running) -> bool:
        """While two batches are in flight, again and again: may wait for events as long as a frame
        lasts. Whether it did; else the run waits for the batch."""
        return False

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

    def _each(self, call: Callable[[Watcher], T], but: type[Exception] = DeviceLost) -> list[T]:
        """What the call of each returns. but: what it may raise here, besides FATAL."""
        found = []
        for watcher in self._all:
            try:
                found.append(call(watcher))
            except (*FATAL, but):
                raise
            except Exception as error:
                self._all = tuple(each for each in self._all if each is not watcher)
                if not isinstance(error, UserError):
                    tqdm.write("".join(traceback.format_exception(error)), file=sys.stderr)
                name, why = watcher.title or type(watcher).__name__, reason(error)
                tqdm.write(f"note: {name} is switched off, and the training continues: {why}")
                with suppress(Exception):
                    watcher.close()
        return found

    @property
    def batch_seconds(self) -> float:
        wanted = self._each(lambda each: each.batch_seconds if each.shown else math.inf)
        return min(wanted, default=math.inf)

    @property
    def paused(self) -> bool:
        return any(self._each(lambda each: each.paused))

    @property
    def lingering(self) -> bool:
        return any(self._each(lambda each: each.lingering))

    def open(self, run: Running) -> None:
        self._run = run
        self._each(lambda each: each.open(run), UserError)

    def begin_again(self) -> None:
        self._each(lambda each: each.begin_again(self._run))

    def turn(self, wait: bool = False) -> None:
        self._each(lambda each: each.turn(self._run, wait))

    def answer(self) -> bool:
        return any(self._each(lambda each: each.answer(self._run)))

    def batch(self) -> None:
        self._each(lambda each: each.batch(self._run))

    def measured(self, result: dict, example: Measured) -> None:
        self._each(lambda each: each.measured(self._run, result, example))

    def close(self) -> None:
        """Closes each of them, whatever the others raise. They are not called again."""
        self._each(lambda each: each.close())
        self._all = ()
