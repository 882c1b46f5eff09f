"""Buffers and images by the contract's names, and copies between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer, copy_regions, record_copy
from hardsplat.gpu.memory.image import Image


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
    copy_regions(old, new, [(0, 0, kept)])
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
        record_copy(commands, source, target, [(0, 0, min(source.nbytes, target.nbytes))])


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
    try:
        for name, size in nbytes.items():
            out[name] = Buffer(device, size, name, host=host)
    except OutOfMemory:
        for buffer in out.values():
            buffer.destroy()
        raise
    return out
