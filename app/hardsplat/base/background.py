"""What a run does beside its training: files, pictures, measurements of nothing on the device.
Threads do it; no one else waits, but at the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import CORES

T = TypeVar("T")
WORKERS = min(16, max(2, CORES))
PATIENCE = 600.0  # s that a file may take before a run gives up waiting for it
ROOM = 4 << 30  # bytes of what waits to be written, at most a quarter of the memory
_SOON = 0.5  # seconds of waiting before a progress line appears


@dataclass
class _Task:
    what: str
    nbytes: int
    future: Future


def outcome(future: Future[T], what: str, seconds: float = PATIENCE) -> T:
    """What a thread found. what: it does, in a word or two. Raises UserError where that takes
    longer."""
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise  # by the thread, not by the wait
        raise UserError(f"{what}: not done after {seconds:.0f} s; is the disk at hand?") from None


class Background:
    """Tasks for threads. Those of one `line` are done in order, one at a time; the others side by
    side.

    room: bytes that tasks may hold together. `do` waits while it would be more. The first exception
    of a task is raised by the next `check` or `finish`.
    """

    def __init__(self, room: int | None = None, workers: int = WORKERS):
        self.room = room_here() if room is None else room
        self._pool = ThreadPoolExecutor(workers, "background")
        self._lines: dict[str, ThreadPoolExecutor] = {}
        self._tasks: list[_Task] = []
        self._lock = threading.Lock()

    def do(self, what: str, work: Callable[[], object], nbytes: int = 0, line: str = "") -> Future:
        """Has `work()` done by a thread. what: in a word or two, for people. nbytes: of memory that
        it keeps until it is done. Returns the outcome to come."""
        while nbytes and self._held() and self._held() + nbytes > self.room:
            tasks = [task.future for task in self._open()]
            if not wait(tasks, PATIENCE, FIRST_COMPLETED).done:
                raise UserError(f"{self._names()}: not done after {PATIENCE:.0f} s")
        pool = self._pool
        if line:
            pool = self._lines.setdefault(line, ThreadPoolExecutor(1, line))
        task = _Task(what, nbytes, pool.submit(work))
        with self._lock:
            self._tasks.append(task)
        return task.future

    def check(self) -> None:
        """Raises what a finished task raised, once."""
        for task in list(self._tasks):
            if task.future.done():
                with self._lock:
                    self._tasks.remove(task)
                if not task.future.cancelled() and (error := task.future.exception()):
                    raise error

    def finish(
        self, quiet: bool = False, turn: Callable[[], object] = lambda: None
    ) -> dict[str, float]:
        """Waits for all tasks, with a progress line when that takes long. turn: called ten times a
        second meanwhile. Returns the seconds that this took until the last one of each name was
        done. Raises what one of them raised, after the others are done, and where nothing is done
        any more."""
        begun, bar, waiting = time.perf_counter(), None, self._open()
        hidden = True if quiet else None
        everything, ended = len(waiting), begun
        seconds = dict.fromkeys((task.what for task in waiting), 0.0)
        try:
            while waiting:
                wait([task.future for task in waiting], timeout=0.1, return_when=FIRST_COMPLETED)
                turn()
                now, before = time.perf_counter(), len(waiting)
                seconds |= dict.fromkeys((t.what for t in waiting), now - begun)
                waiting = self._open()
                ended = now if len(waiting) < before else ended
                if now - ended > PATIENCE:
                    raise UserError(f"{self._names()}: not done after {PATIENCE:.0f} s")
                if bar is None and time.perf_counter() - begun > _SOON:
                    bar = tqdm(
                        total=everything, desc="finishing", unit="file", leave=False, disable=hidden
                    )
                if bar is not None:
                    bar.n = everything - len(waiting)
                    whats = dict.fromkeys(task.what for task in waiting)
                    bar.set_postfix_str(", ".join(whats)[:40])
        finally:
            if bar is not None:
                bar.close()
        self.check()
        return seconds

    def close(self) -> None:
        """Drops what has not begun, waits for what has. Nothing is raised."""
        for pool in (self._pool, *self._lines.values()):
            pool.shutdown(wait=True, cancel_futures=True)

    def _open(self) -> list[_Task]:
        with self._lock:
            return [task for task in self._tasks if not task.future.done()]

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(task.what for task in self._open()))

    def _held(self) -> int:
        return sum(task.nbytes for task in self._open())


def room_here() -> int:
    """ROOM, or a quarter of this machine's memory where that is less."""
    try:
        return min(ROOM, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
    except (AttributeError, ValueError, OSError):  # Windows
        return ROOM // 4
