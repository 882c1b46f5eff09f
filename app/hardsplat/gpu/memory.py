"""Buffers and images, each with its own allocation; host copies through a staging buffer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import vulkan as vk

from hardsplat import contract
from hardsplat.errors import OutOfMemory, UserError
from hardsplat.gpu.context import Device
from hardsplat.gpu.queue import once

_USAGE = (
    vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
)
_IMAGE_USAGE = (
    vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT
    | vk.VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT
    | vk.VK_IMAGE_USAGE_STORAGE_BIT
    | vk.VK_IMAGE_USAGE_SAMPLED_BIT
    | vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT
    | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
)
# Core in Vulkan 1.2, but without a value in the package.
_ADDRESS_USAGE, _DEVICE_ADDRESS = 0x20000, 0x2  # VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
_HOST = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
DEPTH_FORMAT = vk.VK_FORMAT_D32_SFLOAT
POISON = 0xFFFFFFFF  # NaN as float, absurd as a count: what tests fill fresh memory with (HARDSPLAT_POISON=1)


def poisoned() -> bool:
    return os.environ.get("HARDSPLAT_POISON", "0") not in ("", "0")


def _allocate(device: Device, requirements, flags: int, prefer: int, name: str, address: bool = False, grows_with: str = "", shared: bool = False):
    types = [i for i in range(device.memory.memoryTypeCount) if requirements.memoryTypeBits >> i & 1 and device.memory.memoryTypes[i].propertyFlags & flags == flags]
    if not types:
        raise OutOfMemory(f"{device.name} has no memory type for {name}")
    best = max(types, key=lambda i: ((device.memory.memoryTypes[i].propertyFlags & prefer).bit_count(), -i))
    chain = vk.VkMemoryAllocateFlagsInfo(flags=_DEVICE_ADDRESS) if address else None
    if shared:
        chain = vk.VkExportMemoryAllocateInfo(pNext=chain, handleTypes=vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT)
    try:
        return vk.vkAllocateMemory(device.handle, vk.VkMemoryAllocateInfo(pNext=chain, allocationSize=requirements.size, memoryTypeIndex=best), None)
    except (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory):
        raise OutOfMemory(f"{device.name} is out of memory: {name} needs {requirements.size / 2**20:.0f} MiB", grows_with) from None


class Buffer:
    """`nbytes` of storage. host: mapped memory, `array(dtype)` views it; else it is device-local, and `upload` and `download` copy.

    addressed: shaders reach it by `address`, not by a descriptor, so it may be as large as one allocation. grows_with: see OutOfMemory; by default what
    the contract says. shared: `fd()` hands its memory to others; takes the capability `memory_fd`. Raises OutOfMemory.
    """

    def __init__(self, device: Device, nbytes: int, name: str, host: bool = False, addressed: bool = False, grows_with: str = "", shared: bool = False):
        grows_with = grows_with or (contract.BUFFERS[name].grows_with if name in contract.BUFFERS else "")
        unit = 16 if addressed else 4  # shaders go through planes in vec4s
        nbytes = max(16, -(-nbytes // unit) * unit)
        limit = device.max_allocation if addressed else device.max_buffer
        if nbytes > limit:
            raise OutOfMemory(f"buffer {name} needs {nbytes / 2**20:.0f} MiB, {device.name} allows {limit / 2**20:.0f} MiB in one", grows_with)
        self.device, self.nbytes, self.name, self.host = device, nbytes, name, host
        usage = _USAGE | (_ADDRESS_USAGE if addressed else 0)
        external = vk.VkExternalMemoryBufferCreateInfo(handleTypes=vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT) if shared else None
        self.handle = vk.vkCreateBuffer(device.handle, vk.VkBufferCreateInfo(pNext=external, size=nbytes, usage=usage), None)
        requirements = vk.vkGetBufferMemoryRequirements(device.handle, self.handle)
        self.allocated = requirements.size  # bytes of its allocation
        try:
            if host:
                self._memory = _allocate(device, requirements, _HOST, vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, name)
            else:
                self._memory = _allocate(device, requirements, 0, vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, name, addressed, grows_with, shared)
        except OutOfMemory:
            vk.vkDestroyBuffer(device.handle, self.handle, None)
            raise
        vk.vkBindBufferMemory(device.handle, self.handle, self._memory, 0)
        self._map: Any = vk.vkMapMemory(device.handle, self._memory, 0, nbytes, 0) if host else None
        self.address = 0
        if addressed:  # raw cffi: the package throws the returned number away
            info = vk.VkBufferDeviceAddressInfo(buffer=self.handle)
            self.address = int(vk.lib.vkGetBufferDeviceAddress(device.handle, vk.ffi.addressof(info)))
        device.label(vk.VK_OBJECT_TYPE_BUFFER, self.handle, name)
        if poisoned():
            self.fill(POISON)

    def fd(self) -> int:
        """A new file descriptor of the memory of a shared buffer, `allocated` bytes. Whoever imports it owns it; else it must be closed."""
        info = vk.VkMemoryGetFdInfoKHR(memory=self._memory, handleType=vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT)
        return int(self.device.proc("vkGetMemoryFdKHR")(self.device.handle, info))

    def array(self, dtype=np.uint8) -> np.ndarray:
        """The mapped memory of a host buffer as a writable numpy array."""
        return np.frombuffer(self._map, np.uint8).view(dtype)

    def fill(self, word: int) -> None:
        """Every 32-bit word of the buffer := word, now."""
        if self.host:
            self.array(np.uint32)[:] = word
            return
        with once(self.device) as commands:
            vk.vkCmdFillBuffer(commands, self.handle, 0, self.nbytes, word)

    def upload(self, data: np.ndarray, offset: int = 0) -> None:
        """Copies a C-contiguous array to byte `offset`, now."""
        data = np.ascontiguousarray(data)
        if offset + data.nbytes > self.nbytes:
            raise ValueError(f"{data.nbytes} bytes at {offset} do not fit in {self.name} of {self.nbytes} bytes")
        if data.nbytes == 0:
            return
        if self.host:
            self.array()[offset : offset + data.nbytes] = data.reshape(-1).view(np.uint8)
            return
        raw = data.reshape(-1).view(np.uint8)
        for start in range(0, raw.size, _STAGING_BYTES):
            part = raw[start : start + _STAGING_BYTES]
            staging = _staging(self.device)
            staging.array()[: part.size] = part
            with once(self.device) as commands:
                vk.vkCmdCopyBuffer(commands, staging.handle, self.handle, 1, [vk.VkBufferCopy(srcOffset=0, dstOffset=offset + start, size=part.size)])

    def download(self, dtype=np.uint8, count: int | None = None, offset: int = 0) -> np.ndarray:
        """A copy of `count` elements (all by default) from byte `offset`, now."""
        dtype = np.dtype(dtype)
        size = self.nbytes - offset if count is None else count * dtype.itemsize
        out = np.empty(size // dtype.itemsize * dtype.itemsize, np.uint8)
        if self.host:
            out[:] = self.array()[offset : offset + out.size]
            return out.view(dtype)
        for start in range(0, out.size, _STAGING_BYTES):
            part = out[start : start + _STAGING_BYTES]
            staging = _staging(self.device)
            with once(self.device) as commands:
                vk.vkCmdCopyBuffer(commands, self.handle, staging.handle, 1, [vk.VkBufferCopy(srcOffset=offset + start, dstOffset=0, size=part.size)])
            part[:] = staging.array()[: part.size]
        return out.view(dtype)

    def destroy(self) -> None:
        if self.handle is not None:
            vk.vkDestroyBuffer(self.device.handle, self.handle, None)
            vk.vkFreeMemory(self.device.handle, self._memory, None)
            self.handle = self._map = None


def buffer_in(resources: Mapping[str, Buffer | Image], name: str) -> Buffer:
    """The buffer of that name. Raises TypeError where it is an image."""
    found = resources[name]
    if isinstance(found, Image):
        raise TypeError(f"{name} is an image, not a buffer")
    return found


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
    copies = [vk.VkBufferCopy(srcOffset=a, dstOffset=b, size=size) for a, b, size in regions if size]
    if copies:
        with once(source.device) as commands:
            vk.vkCmdCopyBuffer(commands, source.handle, target.handle, len(copies), copies)


_STAGING_BYTES = 32 << 20


def _staging(device: Device) -> Buffer:
    return device.shared("staging", lambda: Buffer(device, _STAGING_BYTES, "staging", host=True), Buffer.destroy)


def _check_image(device: Device, width: int, height: int, format: int, usage: int, texel_bytes: int, name: str, samples: int) -> None:
    """Raises OutOfMemory for a size, UserError for a format or a number of samples, that the device's images of our usage cannot have."""
    try:
        limits = vk.vkGetPhysicalDeviceImageFormatProperties(device.physical.handle, format, vk.VK_IMAGE_TYPE_2D, vk.VK_IMAGE_TILING_OPTIMAL, usage, 0)
    except vk.VkErrorFormatNotSupported:
        raise UserError(f"{device.name} has no images of VkFormat {format} for {name}; choose another --format or --state-format") from None
    if not limits.sampleCounts & samples:
        raise UserError(f"{device.name} has no images of VkFormat {format} with {samples} samples a pixel for {name}")
    side = min(device.max_image, limits.maxExtent.width, limits.maxExtent.height)
    if max(width, height) > side:
        raise OutOfMemory(f"a {width}x{height} image is larger than {device.name} allows ({side} a side)", "pixels")
    if (nbytes := width * height * texel_bytes) > min(limits.maxResourceSize, device.max_allocation):
        raise OutOfMemory(f"a {width}x{height} image of {nbytes >> 20} MiB is larger than {device.name} allows", "pixels")


class Image:
    """A 2D colour image that can be drawn to, stored to, sampled and read as input attachment; always in the layout GENERAL.

    format: a VkFormat number; texel: numpy dtype of one channel as downloaded; 4 channels. samples: of a pixel, one for an image that is down- or uploaded.
    """

    usage, aspect, channels = _IMAGE_USAGE, vk.VK_IMAGE_ASPECT_COLOR_BIT, 4

    def __init__(self, device: Device, width: int, height: int, format: int, texel, name: str, samples: int = 1):
        _check_image(device, width, height, format, self.usage, samples * self.channels * np.dtype(texel).itemsize, name, samples)
        self.device, self.width, self.height, self.format, self.texel, self.name = device, width, height, format, np.dtype(texel), name
        info = vk.VkImageCreateInfo(
            imageType=vk.VK_IMAGE_TYPE_2D,
            format=format,
            extent=vk.VkExtent3D(width, height, 1),
            mipLevels=1,
            arrayLayers=1,
            samples=samples,
            tiling=vk.VK_IMAGE_TILING_OPTIMAL,
            usage=self.usage,
            initialLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
        )
        self.handle = vk.vkCreateImage(device.handle, info, None)
        requirements = vk.vkGetImageMemoryRequirements(device.handle, self.handle)
        self.nbytes = requirements.size
        try:
            self._memory = _allocate(device, requirements, 0, vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, name, grows_with="pixels")
        except OutOfMemory:
            vk.vkDestroyImage(device.handle, self.handle, None)
            raise
        vk.vkBindImageMemory(device.handle, self.handle, self._memory, 0)
        self.range = vk.VkImageSubresourceRange(self.aspect, 0, 1, 0, 1)
        self.view = vk.vkCreateImageView(
            device.handle,
            vk.VkImageViewCreateInfo(image=self.handle, viewType=vk.VK_IMAGE_VIEW_TYPE_2D, format=format, subresourceRange=self.range),
            None,
        )
        device.label(vk.VK_OBJECT_TYPE_IMAGE, self.handle, name)
        self._to_general()

    def _to_general(self) -> None:
        barrier = vk.VkImageMemoryBarrier(
            srcAccessMask=0,
            dstAccessMask=vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT,
            oldLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
            newLayout=vk.VK_IMAGE_LAYOUT_GENERAL,
            srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            image=self.handle,
            subresourceRange=self.range,
        )
        everything = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
        with once(self.device) as commands:
            vk.vkCmdPipelineBarrier(commands, everything, everything, 0, 0, None, 0, None, 1, [barrier])
            if poisoned() and self.aspect == vk.VK_IMAGE_ASPECT_COLOR_BIT:
                value = vk.ffi.new("VkClearColorValue*", {"float32": [0.37, 0.61, 0.83, 0.29]})
                vk.vkCmdClearColorImage(commands, self.handle, vk.VK_IMAGE_LAYOUT_GENERAL, value, 1, [self.range])

    def _bands(self):
        """(top, height) of the bands that fit in the staging buffer, whatever the image's size."""
        height = max(1, _STAGING_BYTES // (self.width * 4 * self.texel.itemsize))
        return [(top, min(height, self.height - top)) for top in range(0, self.height, height)]

    def region(self, top: int, height: int):
        """A band of the image, as copies from and to buffers name them."""
        return vk.VkBufferImageCopy(
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageOffset=vk.VkOffset3D(0, top, 0),
            imageExtent=vk.VkExtent3D(self.width, height, 1),
        )

    def download(self) -> np.ndarray:
        """(height, width, 4) in `texel`, now."""
        out = np.empty((self.height, self.width, 4), self.texel)
        staging = _staging(self.device)
        for top, height in self._bands():
            part = out[top : top + height]
            with once(self.device) as commands:
                vk.vkCmdCopyImageToBuffer(commands, self.handle, vk.VK_IMAGE_LAYOUT_GENERAL, staging.handle, 1, [self.region(top, height)])
            part[:] = staging.array()[: part.nbytes].view(self.texel).reshape(part.shape)
        return out

    def upload(self, texels: np.ndarray) -> None:
        """From (height, width, 4) in `texel`, now."""
        texels = np.ascontiguousarray(texels, self.texel)
        if texels.shape != (self.height, self.width, 4):
            raise ValueError(f"{self.name} is ({self.height}, {self.width}, 4), got {texels.shape}")
        staging = _staging(self.device)
        for top, height in self._bands():
            staging.upload(texels[top : top + height])
            with once(self.device) as commands:
                vk.vkCmdCopyBufferToImage(commands, staging.handle, self.handle, vk.VK_IMAGE_LAYOUT_GENERAL, 1, [self.region(top, height)])

    def destroy(self) -> None:
        if self.handle is not None:
            vk.vkDestroyImageView(self.device.handle, self.view, None)
            vk.vkDestroyImage(self.device.handle, self.handle, None)
            vk.vkFreeMemory(self.device.handle, self._memory, None)
            self.handle = self.view = None


class DepthImage(Image):
    """What draws test depth against. They alone read and write it."""

    usage, aspect, channels = vk.VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT, vk.VK_IMAGE_ASPECT_DEPTH_BIT, 1

    def __init__(self, device: Device, width: int, height: int, name: str, samples: int = 1):
        super().__init__(device, width, height, DEPTH_FORMAT, np.float32, name, samples)
