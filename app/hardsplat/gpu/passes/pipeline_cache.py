"""The device's pipeline cache, kept on disk per device and driver between runs."""

from __future__ import annotations

import atexit
import hashlib

import vulkan as vk

from hardsplat.base.files import replacing
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader


def pipeline_cache(device: Device):
    """The cache of this device: read at the first call, written when the device closes or the
    process ends."""
    return device.shared("pipeline cache", lambda: _open(device))


def _open(device: Device):
    name = (
        hashlib.sha256(f"{device.name} {device.physical.driver}".encode()).hexdigest()[:16] + ".bin"
    )
    path = shader.cache_dir() / "pipelines" / name
    initial = path.read_bytes() if path.is_file() else b""
    data = vk.ffi.new("char[]", initial) if initial else None
    info = vk.VkPipelineCacheCreateInfo(
        initialDataSize=len(initial), pInitialData=vk.ffi.cast("void*", data) if initial else None
    )
    cache = vk.vkCreatePipelineCache(device.handle, info, None)

    def save():
        size = vk.ffi.new("size_t*")
        vk.lib.vkGetPipelineCacheData(device.handle, cache, size, vk.ffi.NULL)
        out = vk.ffi.new("char[]", size[0])
        vk.lib.vkGetPipelineCacheData(device.handle, cache, size, out)
        try:
            with replacing(path, durable=False) as partial:
                partial.write_bytes(vk.ffi.buffer(out, size[0])[:])
        except OSError:
            pass  # a read-only home costs compile time, nothing else

    def close():
        save()
        atexit.unregister(save)
        vk.vkDestroyPipelineCache(device.handle, cache, None)

    atexit.register(save)
    device.at_close(close)
    return cache
