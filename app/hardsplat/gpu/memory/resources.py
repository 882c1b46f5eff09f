"""Buffers and images by the contract's names, copies between them, scratch of passes in one memory,
and what is destroyed with its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hardsplat.base.errors import undone
from hardsplat.gpu.device.context import Destroyable, Device
from hardsplat.gpu.memory.buffer import Buffer, copy_bytes, record_copy
from hardsplat.gpu.memory.image import Image

MEMORY = "scratch"  # the name of what has the memory
_UNIT = 1 << 16  # bytes of places of buffers, whose alignment is some 256 on most drivers
# first and last of the parts of a step between which a buffer's contents must stay
Lives = Mapping[str, tuple[int, int]]
T = TypeVar("T", bound=Destroyable)


class Owned:
    """Buffers, images, recorders and all else that is destroyed with their owner, the last
    first."""

    def __init__(self, parts: Iterable[Destroyable] = ()):
        self._parts = list(parts)

    def add(self, part: T) -> T:
        self._parts.append(part)
        return part

    def add_all(self, parts: Iterable[Destroyable]) -> None:
        self._parts += parts

    def drop(self, part: Destroyable) -> None:
        self._parts.remove(part)
        part.destroy()

    def destroy(self) -> None:
        """Destroys them all. May be called again, and after it there may be new ones."""
        while self._parts:
            self._parts.pop().destroy()


def destroy_all(parts: Mapping[Any, Destroyable]) -> None:
    for part in parts.values():
        part.destroy()


def buffer_in(resources: Mapping[str, Buffer | Image], name: str) -> Buffer:
    """The buffer of that name. Raises TypeError where it is an image."""
    found = resources[name]
    if not isinstance(found, Buffer):
        raise TypeError(f"{name} is an image, not a buffer")
    return found


def moved(old: Buffer, make: Callable[[], Buffer], kept: int, nbytes: int) -> Buffer:
    """The buffer that `make` makes with the first `kept` bytes of the old one, which goes.

    It is the old one where that has `nbytes` already.
    """
    if -(-nbytes // 16) == -(-old.nbytes // 16):
        return old
    new = make()
    copy_bytes(old, new, kept)
    old.destroy()
    return new


def copy_between(commands, source: Buffer | Image, target: Buffer | Image) -> None:
    """Records the copy of a buffer to a buffer that may be smaller, or of a whole image to a buffer
    or back, row by row."""
    if isinstance(source, Image):
        assert isinstance(target, Buffer)
        source.record_read(commands, target, source.region(0, source.height))
    elif isinstance(target, Image):
        target.record_write(commands, source, target.region(0, target.height))
    else:
        record_copy(commands, source, target, min(source.nbytes, target.nbytes))


def allocate_filled(device: Device, values: Mapping[str, np.ndarray | int]) -> dict[str, Buffer]:
    """Buffers by name with what they hold, or so many bytes of zeros: all of them or, with
    OutOfMemory, none."""
    sizes = {name: v if isinstance(v, int) else v.nbytes for name, v in values.items()}
    out = allocate_all(device, sizes)
    for name, v in values.items():
        out[name].fill(0) if isinstance(v, int) else out[name].upload(v)
    return out


def allocate_all(device: Device, nbytes: dict[str, int], host: bool = False) -> dict[str, Buffer]:
    """Buffers by name, all of them or, with OutOfMemory, none. host: see Buffer."""
    out: dict[str, Buffer] = {}
    with undone(partial(destroy_all, out)):
        for name, size in nbytes.items():
            out[name] = Buffer(device, size, name, host=host)
    return out


def placed(sizes: Mapping[str, int], lives: Lives) -> tuple[dict[str, int], int]:
    """Where each buffer begins, by name, and the bytes of all: two that live in one part of a step
    do not overlap. The largest have the lowest places that are free."""
    places: dict[str, int] = {}
    ends: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        first, last = lives[name]
        beside = [n for n in places if lives[n][0] <= last and first <= lives[n][1]]
        at, size = 0, -(-sizes[name] // _UNIT) * _UNIT
        for other in sorted(beside, key=places.__getitem__):
            if at + size <= places[other]:
                break
            at = max(at, ends[other])
        places[name], ends[name] = at, at + size
    return places, max(ends.values(), default=0)


def allocate_overlaid(device: Device, nbytes: dict[str, int], lives: Lives) -> dict[str, Buffer]:
    """Buffers by name, all of them or, with OutOfMemory, none. Those of `lives` are in the memory
    of one more, unless that would be larger than the device allows."""
    sizes = {name: size for name, size in nbytes.items() if name in lives}
    places, most = placed(sizes, lives)
    if not sizes or most > min(device.max_buffer, device.max_allocation):
        return allocate_all(device, nbytes)
    apart = {name: size for name, size in nbytes.items() if name not in lives}
    out = allocate_all(device, apart)
    with undone(partial(destroy_all, out)):
        out[MEMORY] = Buffer(device, most, MEMORY, grows_with="splats")
        for name, place in places.items():
            out[name] = Buffer(device, sizes[name], name, within=(out[MEMORY], place))
    return out


def overlaps(resources: Mapping[str, Buffer | Image]) -> dict[str, set[str]]:
    """Names of resources that have bytes in common with others, and of those others."""
    parts = {}
    for name, found in resources.items():
        if isinstance(found, Buffer) and found.within:
            memory, place = found.within
            parts[name] = memory, place, place + found.nbytes
    out: dict[str, set[str]] = {}
    for name, (memory, begin, end) in parts.items():
        others = {n for n, (m, a, b) in parts.items() if m is memory and a < end and begin < b}
        if others := others - {name}:
            out[name] = others
    return out
