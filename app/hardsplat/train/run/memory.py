"""A training beside other programs that take the memory of its device."""

from __future__ import annotations

import time

from tqdm import tqdm

from hardsplat.train.run.keeping import CheckpointKeeper
from hardsplat.train.run.state import RunState

LEAST = 256 << 20  # bytes that others must leave free, of large devices
SHARE = 0.05  # of its memory, of small ones
SECONDS = 1.0  # from one look to the next


class MemoryWatch:
    """Saves a run before an allocation fails because other programs took the memory."""

    def __init__(self, run: RunState, keeper: CheckpointKeeper):
        self._run, self._keeper = run, keeper
        self._first, self._looked = run.device.memory_budget(), time.monotonic()
        self._least = int(min(LEAST, SHARE * run.device.memory_bytes))
        self._armed = True

    def check(self) -> None:
        """Saves the run, ends the growth of its buffers and prints that, once until memory is free
        again."""
        if self._first is None or time.monotonic() - self._looked < SECONDS:
            return
        self._looked, budget = time.monotonic(), self._run.device.memory_budget()
        taken = self._first.most - budget.most if budget else 0
        if budget is None or budget.free >= self._least or taken < self._least:
            self._armed = self._armed or (budget is not None and budget.free > 2 * self._least)
            return
        if self._armed:
            self._armed = False
            run, device = self._run, self._run.device
            run.session.room.close(f"other programs take the memory of {device.name}")
            self._keeper.save()
            tqdm.write(
                f"note: other programs take the memory of {device.name}, {budget.free >> 20} MiB "
                f"are left: step {run.session.step} is saved, and buffers no longer grow"
            )
