"""Buffers that lie in one memory: scratch of passes between which none of it has to stay."""

from __future__ import annotations

from collections.abc import Mapping

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all

MEMORY = "scratch"  # the name of what has the memory
_UNIT = 1 << 16  # bytes of places of buffers, whose alignment is some 256 on most drivers
# first and last of the parts of a step between which a buffer's contents must stay
Lives = Mapping[str, tuple[int, int]]


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
    try:
        out[MEMORY] = Buffer(device, most, MEMORY, grows_with="splats")
        for name, place in places.items():
            out[name] = Buffer(device, sizes[name], name, within=(out[MEMORY], place))
    except OutOfMemory:
        for buffer in out.values():
            buffer.destroy()
        raise
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
