"""Buffers and images by the contract's names, and copies between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping

import vulkan as vk

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import once
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image


def exchange(
    device: Device, own: MutableMapping[str, Buffer | Image], buffers: Mapping[str, Buffer]
) -> None:
    """Puts buffers instead of those of `own` with their names, which are destroyed once no
    work is under way."""
    device.wait_idle()
    for name, buffer in buffers.items():
        own[name].destroy()
        own[name] = buffer


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
    general = vk.VK_IMAGE_LAYOUT_GENERAL
    if isinstance(source, Image):
        region = source.region(0, source.height)
        vk.vkCmdCopyImageToBuffer(commands, source.handle, general, target.handle, 1, [region])
    elif isinstance(target, Image):
        region = target.region(0, target.height)
        vk.vkCmdCopyBufferToImage(commands, source.handle, target.handle, general, 1, [region])
    else:
        size = min(source.nbytes, target.nbytes)
        region = vk.VkBufferCopy(srcOffset=0, dstOffset=0, size=size)
        vk.vkCmdCopyBuffer(commands, source.handle, target.handle, 1, [region])


def allocate_all(device: Device, nbytes: dict[str, int]) -> dict[str, Buffer]:
    """Buffers by name, all of them or, with OutOfMemory, none."""
    out: dict[str, Buffer] = {}
    try:
        for name, size in nbytes.items():
            out[name] = Buffer(device, size, name)
    except OutOfMemory:
        for buffer in out.values():
            buffer.destroy()
        raise
    return out


def copy_regions(source: Buffer, target: Buffer, regions: list[tuple[int, int, int]]) -> None:
    """Copies (source offset, target offset, bytes) regions on the device, now."""
    copies = [
        vk.VkBufferCopy(srcOffset=a, dstOffset=b, size=size) for a, b, size in regions if size
    ]
    if copies:
        with once(source.device) as commands:
            vk.vkCmdCopyBuffer(commands, source.handle, target.handle, len(copies), copies)
