"""Device memory, and what is said where none is left."""

from __future__ import annotations

import os

import vulkan as vk

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device

# Core in Vulkan 1.2, but without a value in the package.
_ADDRESS_USAGE, _DEVICE_ADDRESS = (
    0x20000,
    0x2,
)  # VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
_HOST = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT

# NaN as float, absurd as a count: what tests fill fresh memory with (HARDSPLAT_POISON=1)
POISON = 0xFFFFFFFF


def poisoned() -> bool:
    return os.environ.get("HARDSPLAT_POISON", "0") not in ("", "0")


def allocate_memory(
    device: Device,
    requirements,
    flags: int,
    prefer: int,
    name: str,
    address: bool = False,
    grows_with: str = "",
    shared: bool = False,
):
    """Memory for a buffer or an image, of a type with all of `flags` and, if there is one,
    `prefer`. Raises OutOfMemory."""
    types = [
        i
        for i in range(device.memory.memoryTypeCount)
        if requirements.memoryTypeBits >> i & 1
        and device.memory.memoryTypes[i].propertyFlags & flags == flags
    ]
    if not types:
        raise OutOfMemory(f"{device.name} has no memory type for {name}")
    best = max(
        types, key=lambda i: ((device.memory.memoryTypes[i].propertyFlags & prefer).bit_count(), -i)
    )
    chain = vk.VkMemoryAllocateFlagsInfo(flags=_DEVICE_ADDRESS) if address else None
    if shared:
        chain = vk.VkExportMemoryAllocateInfo(
            pNext=chain, handleTypes=vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
        )
    try:
        return vk.vkAllocateMemory(
            device.handle,
            vk.VkMemoryAllocateInfo(
                pNext=chain, allocationSize=requirements.size, memoryTypeIndex=best
            ),
            None,
        )
    except (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory):
        raise OutOfMemory(
            f"{device.name} is out of memory: {name} needs {requirements.size / 2**20:.0f} MiB",
            grows_with,
        ) from None
