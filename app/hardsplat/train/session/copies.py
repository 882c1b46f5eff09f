"""Memory of the host for copies of a run's state. Systems take longer to hand out so much of it
than the copy takes: a thread requests it ahead, and it is used again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import numpy as np

from hardsplat.base.background import Background, outcome

Allocate = Callable[[str, tuple[int, ...]], np.ndarray]


def fresh(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A new float32 array, with anything in it."""
    return np.empty(shape, np.float32)


class HostCopies:
    """Two copies: the last one stays whole while another is made. background: larger copies than
    its room, in bytes, are not used again."""

    def __init__(self, background: Background):
        self._background, self._last = background, 0
        self._arrays: list[dict[str, np.ndarray]] = [{}, {}]  # flat, by name
        self._users: list[Future | None] = [None, None]  # files that are written of them
        self._ready: Future | None = None

    def prepare(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Has memory for the next copy made, of arrays of at most these shapes by name, unless it
        is there or being made."""
        arrays, sizes = self._arrays[1 - self._last], {n: math.prod(s) for n, s in shapes.items()}
        missing = {n: size for n, size in sizes.items() if n not in arrays or arrays[n].size < size}
        busy = not self._idle() or not (self._ready is None or self._ready.done())
        if missing and not busy and 4 * sum(sizes.values()) <= self._background.room:
            self._ready = self._background.do("memory", partial(_fill, arrays, missing))

    def begin(self) -> Allocate:
        """What gives the arrays of the next copy, with anything in them. The copy before the last
        one is lost, unless a file is being written of it."""
        if self._ready is not None:
            outcome(self._ready, "memory for a copy of the splats")
        if not self._idle():
            self._arrays[1 - self._last] = {}
        self._users[1 - self._last], arrays = None, self._arrays[1 - self._last]

        def allocate(name: str, shape: tuple[int, ...]) -> np.ndarray:
            size = math.prod(shape)
            if 4 * size > self._background.room:
                return fresh(name, shape)
            if name not in arrays or arrays[name].size < size:
                arrays[name] = np.empty(size, np.float32)
            return arrays[name][:size].reshape(shape)

        return allocate

    def made(self) -> None:
        """The copy that was begun is the last one now."""
        self._last = 1 - self._last

    def written_by(self, file: Future) -> None:
        """The last copy is in use until the file is done."""
        self._users[self._last] = file

    def _idle(self) -> bool:
        """Whether no file is being written of the copy before the last one."""
        user = self._users[1 - self._last]
        return user is None or user.done()


def _fill(arrays: dict[str, np.ndarray], sizes: Mapping[str, int]) -> None:
    with suppress(MemoryError):  # then there will be none when it is needed, or more by then
        arrays.update({name: np.full(size, 0, np.float32) for name, size in sizes.items()})
