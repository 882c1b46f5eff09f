"""Buffers and images by the contract's names."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from hardsplat.gpu.context import Device
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer


def exchange(device: Device, own: MutableMapping[str, Buffer | Image], buffers: Mapping[str, Buffer]) -> None:
    """Puts buffers in the place of those of `own` with their names, which are destroyed once no work is under way."""
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
