"""Lists of pairs of splats and parts of the canvas, with as much memory as frames need."""

from __future__ import annotations

import logging
from typing import Protocol

import numpy as np

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.overlaid import MEMORY, Lives, allocate_overlaid

log = logging.getLogger("hardsplat")
HEADROOM = 1.5  # what is allocated over what frames need: each replacement takes some 0.3 s
SPARE = 0.6  # share of a capacity below which the rest is given back
_APART: Lives = {}


class Counted(Protocol):
    @property
    def counts(self) -> np.void: ...  # the Counts struct as it is now


class PairLists:
    """The part of a rasterizer that holds pairs and checkpoints, and lets their buffers grow and
    shrink. pair_capacity, checkpoint_capacity: how many fit.

    Without pairs there is nothing to hold: both are 0. lives: of those buffers that share memory.
    """

    device: Device
    resources: dict[str, Buffer | Image]
    parts = "tile"  # of the canvas, which make pairs with splats
    beyond = "the farthest are not drawn"  # what becomes of pairs that do not fit
    pair_capacity = checkpoint_capacity = 0
    least_pairs = 0  # which are not given back
    lives = _APART
    _own: dict[str, Buffer | Image]
    _parameters: Counted
    _warned = False  # that pairs are left out

    def _collect(self) -> None:
        """`resources` are another object whenever one of them is replaced."""
        raise NotImplementedError

    def _possible_pairs(self) -> int:
        """Pairs of every splat with every part of the canvas."""
        return 0

    def _most_pairs(self) -> int:
        """Most pairs that descriptors reach."""
        return 0

    def _pair_bytes(self, pairs: int, checkpoints: int = 0) -> dict[str, int]:
        """Bytes of what holds so many pairs and checkpoints, by buffer."""
        return {}

    def _most_checkpoints(self, pairs: int) -> int:
        """Checkpoints of so many pairs at most, as far as memory allows."""
        return 0

    def _meet_limit(self) -> bool:
        """Frames have more pairs than a descriptor reaches. Returns whether buffers were
        replaced."""
        return False

    def reserve_pairs(
        self, pairs: int | None = None, checkpoints: int = 0, give_back: bool = False
    ) -> bool:
        """Makes buffers large enough for so many pairs and checkpoints, by default those of the
        last frame, which must be done. give_back: and not much larger. True where they were
        replaced: `resources` is another, and what was recorded must be recorded again, also after
        OutOfMemory, which leaves the capacities as they are."""
        if pairs is None:
            counts = self._parameters.counts
            pairs, checkpoints = pairs_wanted(counts), int(counts["checkpoints"])
        # Else there are no more pairs, and the caller looks ahead.
        limited = self._most_pairs() < min(pairs, self._possible_pairs())
        replaced = limited and self._meet_limit()
        most = self._most_pairs()
        if limited and not self._warned:
            self._warned = True
            where, what = self.device.name, self.beyond
            text = "frames have up to %s pairs of %s and splat, %s fit on %s: %s"
            log.warning(text, pairs, self.parts, most, where, what)
        capacity = _fitted(self.pair_capacity, pairs, most, self.least_pairs, give_back)
        if not checkpoints and capacity > self.pair_capacity:  # as many for a pair as there are
            share = self.checkpoint_capacity / max(self.pair_capacity, 1)
            checkpoints = int(capacity * share / HEADROOM)
        reached, places = self._most_checkpoints(capacity), self.checkpoint_capacity
        before, ample = self.resources, _fitted(places, checkpoints, reached, 0, give_back)
        try:
            self._resize_lists(capacity, ample)
        except OutOfMemory:
            if ample <= places:
                raise
            self._resize_lists(capacity, places)  # without some it takes longer
        return replaced or self.resources is not before

    def _resize_lists(self, pairs: int, checkpoints: int) -> None:
        """Replaces the buffers whose size changes. Those of before go first: frames fill what they
        read, and there is never memory for both. After OutOfMemory there are those of before."""
        sizes = self._pair_bytes(pairs, checkpoints)
        before = self._pair_bytes(self.pair_capacity, self.checkpoint_capacity)
        changed = {name: n for name, n in sizes.items() if n != before[name]}
        if not changed:
            return
        gone = set(changed)
        if gone & self.lives.keys():  # the memory that they share goes with all of them
            changed |= {name: n for name, n in sizes.items() if name in self.lives}
            gone = {*changed, MEMORY}
        self.device.wait_idle()
        for name in self._own.keys() & gone:
            self._own.pop(name).destroy()
        try:
            self._own |= allocate_overlaid(self.device, changed, self.lives)
        except OutOfMemory:
            old = {name: before[name] for name in changed}
            self._own |= allocate_overlaid(self.device, old, self.lives)
            self._collect()
            raise
        self.pair_capacity, self.checkpoint_capacity = pairs, checkpoints
        self._collect()


def pairs_wanted(counts: np.void) -> int:
    """Pairs of tile and splat that the last frame has."""
    return int(counts["pairs_wanted"]) + (int(counts["pairs_wanted_high"]) << 32)


def _fitted(capacity: int, needed: int, most: int, least: int, give_back: bool) -> int:
    """The capacity for what is needed: that of now, unless it is too small or much too large."""
    ample = min(max(int(needed * HEADROOM), least), most)
    too_large = give_back and ample < SPARE * capacity
    return ample if too_large or min(needed, most) > capacity else capacity
