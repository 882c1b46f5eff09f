"""A step that is recorded once and submitted many times: batches, two of them in flight, and what
comes back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory, undone
from hardsplat.gpu.commands.recorder import Recorder, Recordings
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, submit
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned, allocate_filled

HISTORY = contract.CONSTANTS["HISTORY"]
LONGEST_BATCH = HISTORY // 2  # two are in flight
AHEAD = 1.2  # pairs that lists are made for, over the most that a step of late needed
WINDOW = 100  # of late: so many steps at least
BATCH_SECONDS = 1.0  # how long a batch may take on a slow device: Ctrl-C waits for two
SNAPSHOT_SECONDS = 60.0  # how much work a lost device may cost


@dataclass
class BatchResult:
    """What came back from a batch: records of its steps (of the contract), the stages of one of its
    steps in ms.

    pair_capacity: pairs of tile and splat that fit. host: seconds of the host's clock at its begin
    and end.
    """

    first_step: int
    records: np.ndarray
    stages: dict[str, float]
    busy: tuple[float, float]  # device clock at its begin and end, ns; equal where it has none
    pair_capacity: int
    host: tuple[float, float]

    @property
    def seconds(self) -> float:
        """Seconds that it took, by the device's clock, or by the host's where it has none."""
        begin, end = self.busy
        return 1e-9 * (end - begin) or self.host[1] - self.host[0]


class InFlight:
    """One batch in flight, between two empty command buffers for its timestamps."""

    head: Recorder
    timed: Recorder
    tail: Recorder

    def __init__(self, device: Device):
        self.fence = Fence(device)
        self.first, self.count, self.pair_capacity, self.begun_at = 0, 0, 0, 0.0
        self.timed_here = True  # a step of this batch was timed


class StepRunner:
    """A step's command buffer, two batches of it in flight, and the buffers between host and steps.

    settings: what steps read, by contract name, or so many bytes of zeros. history: row of the
    contract, the ring of the steps' records. observers: called with each finished batch, in order.

    buffers: those of the settings, the schedule of views, the history. step: steps that were
    queued. step_seconds: of a step of the last batch; a guess until one has ended.
    """

    def __init__(
        self,
        device: Device,
        settings: Mapping[str, np.ndarray | int],
        *observers: Callable[[BatchResult], None],
        history: str = "history",
    ):
        self.device, self._observers, self._owned = device, observers, Owned()
        self.step, self.step_seconds, self._ended_at = 0, 1.0, 0.0
        self._submitted, self._turn, self._recorded = 0, 0, Recordings(device, {})
        with undone(self._owned.destroy):
            self.buffers = allocate_filled(device, settings)
            self._owned.add_all(self.buffers.values())
            for name in ("schedule", history):
                ring = Buffer(device, HISTORY * contract.itemsize(name), name, host=True)
                self.buffers[name] = self._owned.add(ring)
                ring.fill(0)  # a step that is drawn outside of a batch reads it too
            self._slots = [InFlight(device) for _ in range(2)]
            self._owned.add_all(slot.fence for slot in self._slots)
        self._history = history  # not as arrays: those would hold the device

    def update(self, settings: Mapping[str, np.ndarray]) -> None:
        """Gives the next steps other settings. Nothing may be in flight."""
        for name, values in settings.items():
            self.buffers[name].upload(values)

    def record(
        self,
        resources: Mapping[str, Buffer | Image],
        step: Callable[..., None],
        scores: bool = False,
    ) -> None:
        """Records the step anew; nothing may be in flight. resources: of its passes, by contract
        name. scores: some steps are recorded with `scores=True`."""
        self._recorded.destroy()
        self._recorded = recorded = Recordings(self.device, resources)
        # the last command buffer of a batch makes visible what all have written
        self._step = recorded(step, for_host=False)
        self._scored = recorded(lambda r: step(r, scores=True), for_host=False) if scores else None
        for slot in self._slots:
            parts = (lambda recorder: None), step, (lambda recorder: None)
            slot.head, slot.timed, slot.tail = (recorded(each, timed=True) for each in parts)

    @property
    def steps_per_second(self) -> float:
        return 1 / max(self.step_seconds, 1e-9)

    @property
    def ready(self) -> bool:
        """Whether wait_for_turn would not wait."""
        slot = self._slots[self._turn]
        return not slot.count or slot.fence.done()

    def wait_for_turn(self) -> None:
        """Waits for the batch before the last, after which `run` waits for nothing."""
        self._collect(self._slots[self._turn])

    def run(
        self,
        order: Sequence[int] | np.ndarray,
        place: Callable[[int, int], int],
        pair_capacity: int = 0,
        scored: Sequence[bool] = (),
    ) -> None:
        """Queues a batch of at most LONGEST_BATCH steps. order: the view of each. place: from a
        step and its view to the first pixel of the photograph. scored: which of the steps draw
        scores, by default none; those are not timed."""
        self.wait_for_turn()
        first, steps = self.step, len(order)
        views = self.buffers["schedule"].array(np.uint32).reshape(-1, 2)
        for step, view in enumerate(order, first):
            views[step % HISTORY] = view, place(step, int(view))
        slot, scored = self._slots[self._turn], scored or [False] * steps
        self._turn, self._submitted = 1 - self._turn, self._submitted + 1
        commands = [self._scored if each else self._step for each in scored]
        # spread by the golden ratio: what steps do may depend on their number, see --shN-every
        timed = int(self._submitted * 0.6180339887 % 1 * steps)
        later = (i % steps for i in range(timed, timed + steps))
        plain = next((i for i in later if not scored[i]), None)
        slot.timed_here = plain is not None
        if plain is not None:
            commands[plain] = slot.timed
        submit(self.device, [slot.head, *commands, slot.tail], slot.fence)
        slot.first, slot.count, slot.pair_capacity = first, steps, pair_capacity
        slot.begun_at = time.perf_counter()
        self.step += steps

    def drain(self) -> None:
        """Waits for all batches in flight."""
        for slot in (self._slots[self._turn], self._slots[1 - self._turn]):
            self._collect(slot)

    def _collect(self, slot: InFlight) -> None:
        if slot.count == 0:
            return
        slot.fence.wait()
        # before the fence is reset: after an interrupt in what follows nobody may wait for it again
        count, slot.count = slot.count, 0
        slot.fence.reset()
        begun, self._ended_at = max(slot.begun_at, self._ended_at), time.perf_counter()
        kind = contract.dtype(contract.BUFFERS[self._history].type)
        records = self.buffers[self._history].array(kind)
        records = records[np.arange(slot.first, slot.first + count) % HISTORY]
        begin, end = slot.head.stamps(), slot.tail.stamps()
        busy = (float(begin[0]), float(end[0])) if len(begin) else (0.0, 0.0)
        stages = slot.timed.times() if slot.timed_here else {}
        host = (begun, self._ended_at)
        result = BatchResult(slot.first, records, stages, busy, slot.pair_capacity, host)
        # not by when the host came to look, which may be at once for two of them
        self.step_seconds = result.seconds / len(records)
        for observe in self._observers:
            observe(result)

    def settle(self) -> None:
        """Waits for all that was queued, before anything is destroyed. On a lost device nothing is
        under way."""
        with suppress(DeviceLost):
            self.drain()
        self.device.settle()

    def destroy(self) -> None:
        self.settle()
        self._recorded.destroy()
        self._owned.destroy()


class WithPairs(Protocol):
    """A rasterizer, see hardsplat.raster.core.rasterizer."""

    @property
    def pair_capacity(self) -> int: ...
    def reserve_pairs(self, pairs: int, checkpoints: int, give_back: bool) -> bool: ...


class PairDemand:
    """Sizes of a rasterizer's lists from what steps of late needed: the last `window` of them at
    least. Lists grow before steps need more than fits, and are given back when they need less.

    clipped_steps: drawn without their farthest pairs, which did not fit.
    """

    def __init__(self, window: int = WINDOW):
        self.clipped_steps, self._window = 0, max(window, WINDOW)
        # of each rasterizer, since a pair is another thing there: steps, most pairs and checkpoints
        self._batches_of: dict[str, deque[tuple[int, int, int]]] = {}
        self.use("")
        self._refused = False  # there was no memory for more

    def use(self, rasterizer: str) -> None:
        """What is noted from here on is needed by that rasterizer, and its lists are sized."""
        self._batches = self._batches_of.setdefault(rasterizer, deque())

    def note(self, result: BatchResult) -> None:
        low, high = (result.records[n].astype(np.int64) for n in ("pairs", "pairs_high"))
        pairs, checkpoints = low + (high << 32), result.records["checkpoints"]
        self._batches.append((len(pairs), int(pairs.max()), int(checkpoints.max())))
        while self._steps - self._batches[0][0] >= self._window:
            self._batches.popleft()
        self.clipped_steps += int((pairs > result.pair_capacity).sum())

    @property
    def _steps(self) -> int:
        return sum(steps for steps, _, _ in self._batches)

    def fit(self, raster: WithPairs, new: bool = False) -> None:
        """Sizes the lists of the rasterizer; they do not grow after there was no memory: failing to
        allocate is slow, and pairs are drawn as far as they fit. A new rasterizer tries anyhow."""
        lost = raster.pair_capacity == 0  # nothing can be drawn
        if not self._batches or (self._refused and not new and not lost):
            return
        pairs, checkpoints = (max(each[i] for each in self._batches) for i in (1, 2))
        try:
            give_back = self._steps >= self._window
            raster.reserve_pairs(int(pairs * AHEAD), checkpoints, give_back)
        except OutOfMemory:
            if raster.pair_capacity == 0:
                raise
            self._refused = self._refused or not new
