"""A batch of training steps: submitted together, in flight, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app import contract
from app.gpu.context import Device
from app.gpu.queue import Fence
from app.gpu.recorder import Recorder

HISTORY = contract.CONSTANTS["HISTORY"][0]
LONGEST_BATCH = HISTORY // 2  # two are in flight


@dataclass
class BatchResult:
    """What came back from a batch: records of its steps (contract StepRecord), the stages of its last step in ms, GPU time in ns."""

    first_step: int
    records: np.ndarray
    stages: dict[str, float]
    busy: tuple[float, float]  # device clock at its begin and end, ns


class Slot:
    """One batch in flight."""

    def __init__(self, device: Device):
        self.fence = Fence(device)
        self.first, self.count, self.room, self.begun_at = 0, 0, 0, 0.0
        self.head = self.tail = self.timed = None

    def result(self, history: np.ndarray) -> BatchResult:
        """Of the batch, which must be done. history: the ring of records."""
        records = history[np.arange(self.first, self.first + self.count) % HISTORY]
        begin, end = self.head.stamps(), self.tail.stamps()
        busy = (float(begin[0]), float(end[0])) if len(begin) else (0.0, 0.0)
        return BatchResult(self.first, records, self.timed.times(), busy)


def nothing(recorder: Recorder) -> None:
    """A command buffer of its own around a batch, for its two timestamps."""
