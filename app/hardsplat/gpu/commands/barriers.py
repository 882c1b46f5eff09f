"""Barriers between the passes of a command buffer, from what they read and write."""

from __future__ import annotations

import os
from collections.abc import Callable, Set

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.queue import barrier, compute_barrier

SCHEDULES = ("declared", "serial", "reversed")


def schedule() -> str:
    """HARDSPLAT_SCHEDULE: the order of passes between which the declarations need no barrier.

    It tests the declarations, which no validation layer can check where shaders reach memory by
    address. declared: as they were recorded, for the device to run at once. serial: one after the
    other. reversed: one after the other, the last first; passes that depend on each other and do
    not declare it then change the result.
    """
    wanted = os.environ.get("HARDSPLAT_SCHEDULE") or "declared"
    if wanted not in SCHEDULES:
        raise UserError(f"HARDSPLAT_SCHEDULE is {wanted}: choose {', '.join(SCHEDULES)}")
    return wanted


class Barriers:
    """Records a barrier before a pass that touches what one wrote, or writes what one read.

    Between compute passes it is one of theirs alone, and it holds back the reading of work sizes
    only where those were written.
    """

    def __init__(self, commands):
        self._commands, self._schedule = commands, schedule()
        self._written: set[str] = set()
        self._read: set[str] = set()
        self._apart: set[str] = set()  # of _written: passes write separate parts of these
        # written and read before a barrier of compute passes, and shown to no other pass
        self._unshown: tuple[set[str], set[str]] = set(), set()
        self._computes = True  # all passes since the last barrier for everything
        self._resized = False  # work sizes were written that no barrier shows yet
        self._group: list[Callable[[], None]] = []  # recorded later, in reverse

    def order(
        self,
        reads: set[str],
        writes: set[str],
        computes: bool = False,
        commanded: bool = False,
        apart: Set[str] = frozenset(),
    ) -> None:
        """Records a barrier if these accesses clash with those since the last one.

        computes: they are a compute pass's. commanded: its work sizes are in `indirect`. apart: of
        `writes`, what passes write parts of that no other pass touches which declares it too.
        """
        shared = apart & self._apart
        clashes = reads & self._written or writes & (self._written - shared) or writes & self._read
        written, read = self._unshown
        hidden = () if computes else (reads | writes) & written or writes & read
        if clashes or hidden or (commanded and self._resized):
            self.flush()
            if self._computes and computes:
                shown = self._resized and commanded
                compute_barrier(self._commands, shown or "indirect" in writes)
                self._resized = self._resized and not shown
                written |= self._written
                read |= self._read
            else:
                barrier(self._commands)
                self._computes, self._resized = True, False
                written.clear()
                read.clear()
            self._written.clear()
            self._read.clear()
            self._apart.clear()
        self._apart = (self._apart | (apart - self._written)) - (writes - apart)
        self._written |= writes
        self._read |= reads
        self._computes = self._computes and computes
        self._resized = self._resized or "indirect" in writes

    def emit(self, emit: Callable[[], None]) -> None:
        """Records something now, or with everything else that stands between two barriers."""
        if self._schedule == "reversed":
            self._group.append(emit)
            return
        if self._schedule == "serial":
            barrier(self._commands)
        emit()

    def flush(self) -> None:
        """Records what was held back."""
        for emit in reversed(self._group):
            barrier(self._commands)
            emit()
        self._group.clear()
