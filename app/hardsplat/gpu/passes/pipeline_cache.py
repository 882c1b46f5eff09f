"""The device's pipeline cache, kept on disk per device and driver between runs."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import vulkan as vk

from hardsplat.base.files import replacing
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader


def pipeline_cache(device: Device):
    """The cache of this device: read at the first call, written when the device closes or the
    process ends."""
    return device.shared("pipeline cache", partial(_open, device))


def _path(device: Device) -> Path:
    key = hashlib.sha256(f"{device.name} {device.physical.driver}".encode()).hexdigest()[:16]
    return shader.cache_dir() / "pipelines" / f"{key}.bin"


def _open(device: Device) -> Any:
    path = _path(device)
    initial = path.read_bytes() if path.is_file() else b""
    data = vk.ffi.new("char[]", initial) if initial else None
    start = vk.ffi.cast("void*", data) if initial else None
    cache = device.create("PipelineCache", initialDataSize=len(initial), pInitialData=start)
    device.at_close(partial(_save, device, cache))
    return cache


def _save(device: Device, cache) -> None:
    size = vk.ffi.new("size_t*")
    vk.lib.vkGetPipelineCacheData(device.handle, cache, size, vk.ffi.NULL)
    out = vk.ffi.new("char[]", size[0])
    vk.lib.vkGetPipelineCacheData(device.handle, cache, size, out)
    # a read-only home costs compile time, nothing else
    with suppress(OSError), replacing(_path(device), durable=False) as part:
        part.write_bytes(vk.ffi.buffer(out, size[0])[:])
