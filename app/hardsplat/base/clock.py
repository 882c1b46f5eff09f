"""Where the time of a command goes: its parts, one after the other, that add up to the time from
prompt to prompt."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_START = 10.0  # s from the start of a process to the first line of ours


class PhaseClock:
    """A clock that is always in one part, of one thread; what other threads do meanwhile takes no
    time here.

    begun: on the clock of time.perf_counter, when the first part began. compiling: seconds that
    were spent on building pipelines so far, which become the part `compile` wherever they were
    spent.
    """

    def __init__(self, first: str, begun: float | None = None):
        self.seconds: dict[str, float] = {}
        self.compiling: Callable[[], float] = lambda: 0.0
        self._stack, self._compiled = [first], 0.0
        self._at = self._begun = time.perf_counter() if begun is None else begun
        self._thread = threading.get_ident()

    def begin(self, name: str) -> None:
        """Ends the part that is on, and begins another."""
        self._pass()
        self._stack[-1] = name

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """The time of the block is that of `name`, not of the part that it stands in."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._pass()
        self._stack.append(name)
        try:
            yield
        finally:
            self._pass()
            self._stack.pop()

    def total(self) -> float:
        return time.perf_counter() - self._begun

    def read(self) -> dict[str, float]:
        """Seconds by part up to now, in the order in which parts began, and their sum as
        `total`."""
        self._pass()
        return {**self.seconds, "total": sum(self.seconds.values())}

    def _pass(self) -> None:
        now, compiled = time.perf_counter(), self.compiling()
        elapsed = now - self._at
        of_compiling = min(max(compiled - self._compiled, 0.0), elapsed)
        self._at, self._compiled = now, compiled
        for name, spent in (("compile", of_compiling), (self._stack[-1], elapsed - of_compiling)):
            if spent > 0 or name != "compile":
                self.seconds[name] = self.seconds.get(name, 0.0) + spent


def process_began() -> float:
    """The start of this process on the clock of time.perf_counter, or now where it is not known.

    A start more than LONGEST_START ago is that of another program, such as a shell script that
    ended with `exec hardsplat`."""
    now = time.perf_counter()
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[19])  # proc(5): field 22, starttime
        alive = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - alive if 0 <= alive < LONGEST_START else now
