"""Device memory, and what is reported where none is left."""

from __future__ import annotations

import os
from typing import Any

import vulkan as vk

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.features import bits

_DEVICE_ADDRESS = 0x2  # VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, core in 1.2, not in the package
_OPAQUE_FD = vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
_MAPPED = bits("VK_MEMORY_PROPERTY_HOST_{}_BIT", "VISIBLE", "COHERENT")

LARGE = 1 << 20  # bytes from which a driver is asked for its count, which takes some time

# NaN as float, absurd as a count: what tests fill fresh memory with (HARDSPLAT_POISON=1)
POISON = 0xFFFFFFFF


def poisoned() -> bool:
    return os.environ.get("HARDSPLAT_POISON", "0") not in ("", "0")


def step_poison() -> float | None:
    """The number that tests fill scratch with before each step (HARDSPLAT_POISON="step 1e30")."""
    when, _, value = os.environ.get("HARDSPLAT_POISON", "").partition(" ")
    return float(value) if when == "step" else None


class Allocation:
    """A Vulkan buffer or image with memory of its own, `nbytes` of it.

    kind: Buffer or Image. host: the host sees the memory, else it is the device's where there is
    such. addressed: shaders reach it by address. shared: other APIs may import it. within: another
    allocation, whose memory it has from a byte on, and none of its own. fields: of the
    VkBufferCreateInfo or VkImageCreateInfo. Raises OutOfMemory, which names grows_with.
    """

    def __init__(
        self,
        device: Device,
        kind: str,
        name: str,
        *,
        host: bool = False,
        addressed: bool = False,
        shared: bool = False,
        grows_with: str = "",
        within: tuple[Allocation, int] | None = None,
        **fields,
    ):
        device.free_buried()
        self._device, self._kind = device, kind
        self.handle: Any = device.create(kind, **fields)
        needs = getattr(vk, f"vkGet{kind}MemoryRequirements")(device.handle, self.handle)
        bind = getattr(vk, f"vkBind{kind}Memory")
        self._counted, self._owns = ("host" if host else f"{kind.lower()}s", name), not within
        if within:
            of, place = within
            if place % needs.alignment:
                device.destroy(kind, self.handle)
                what = f"{name} must begin at a multiple of {needs.alignment} bytes, not at {place}"
                raise ValueError(what)
            self.memory: Any = of.memory
            self.nbytes = 0
            bind(device.handle, self.handle, self.memory, place)
            return
        self.nbytes = needs.size
        limit = 0 if host else device.memory_limit
        chain = vk.VkMemoryAllocateFlagsInfo(flags=_DEVICE_ADDRESS) if addressed else None
        if shared:
            chain = vk.VkExportMemoryAllocateInfo(pNext=chain, handleTypes=_OPAQUE_FD)
        try:
            if limit and device.usage.on_device + needs.size > limit:
                raise vk.VkErrorOutOfDeviceMemory  # as where there is no more
            info = vk.VkMemoryAllocateInfo(
                pNext=chain,
                allocationSize=needs.size,
                memoryTypeIndex=self._type(needs, host, name),
            )
            memory = vk.vkAllocateMemory(device.handle, info, None)
        except (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory):
            device.destroy(kind, self.handle)
            what = f"{device.name} is out of memory: {name} needs {needs.size / 2**20:.0f} MiB"
            raise OutOfMemory(what, grows_with) from None
        except OutOfMemory:
            device.destroy(kind, self.handle)
            raise
        self.memory = device.own("Memory", memory, vk.vkFreeMemory)
        bind(device.handle, self.handle, self.memory, 0)
        device.usage.add(*self._counted, self.nbytes)
        if device.usage.on_device == device.usage.peak and self.nbytes >= LARGE:
            device.memory_peak()  # has the driver count

    def _type(self, needs, host: bool, name: str) -> int:
        """The index of the memory type to take."""
        there = self._device.memory
        flags = [there.memoryTypes[i].propertyFlags for i in range(there.memoryTypeCount)]
        must = _MAPPED if host else 0
        fitting = (i for i, has in enumerate(flags) if has & must == must)
        if not (types := [i for i in fitting if needs.memoryTypeBits >> i & 1]):
            raise OutOfMemory(f"{self._device.name} has no memory type for {name}")
        prefer = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
        if host:
            prefer = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
        return max(types, key=lambda i: (flags[i] & prefer, -i))

    def fd(self) -> int:
        """A new file descriptor of shared memory. The API that imports it owns it; else it must be
        closed."""
        info = vk.VkMemoryGetFdInfoKHR(memory=self.memory, handleType=_OPAQUE_FD)
        return int(self._device.proc("vkGetMemoryFdKHR")(self._device.handle, info))

    def free(self) -> None:
        self._device.destroy(self._kind, self.handle)
        if self._owns:
            self._device.destroy("Memory", self.memory)
            self._device.usage.add(*self._counted, -self.nbytes)
