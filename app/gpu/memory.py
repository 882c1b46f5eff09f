"""Buffers and images, each with its own allocation; host copies through a staging buffer."""

from __future__ import annotations

import os

import numpy as np
import vulkan as vk

from app.gpu.context import Device, OutOfMemory

_USAGE = (
    vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
)
_HOST = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
POISON = 0xFFFFFFFF  # NaN as float, absurd as a count: what tests fill fresh memory with (HARDSPLAT_POISON=1)


def poisoned() -> bool:
    return os.environ.get("HARDSPLAT_POISON", "0") not in ("", "0")


def _allocate(device: Device, requirements, flags: int, prefer: int, name: str):
    types = [
        i
        for i in range(device.memory.memoryTypeCount)
        if requirements.memoryTypeBits >> i & 1 and device.memory.memoryTypes[i].propertyFlags & flags == flags
    ]
    if not types:
        raise OutOfMemory(f"{device.name} has no memory type for {name}")
    best = max(types, key=lambda i: (bin(device.memory.memoryTypes[i].propertyFlags & prefer).count("1"), -i))
    try:
        return vk.vkAllocateMemory(device.handle, vk.VkMemoryAllocateInfo(allocationSize=requirements.size, memoryTypeIndex=best), None)
    except (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory):
        raise OutOfMemory(f"{device.name} is out of memory: {name} needs {requirements.size / 2**20:.0f} MiB") from None


class Buffer:
    """`nbytes` of storage. host=True: mapped memory, `array(dtype)` views it; else device-local, `upload`/`download` copy."""

    def __init__(self, device: Device, nbytes: int, name: str, host: bool = False):
        nbytes = max(16, (nbytes + 3) // 4 * 4)
        if nbytes > device.max_buffer:
            raise OutOfMemory(
                f"buffer {name} needs {nbytes / 2**20:.0f} MiB, {device.name} allows {device.max_buffer / 2**20:.0f} MiB in one: lower --cap-max or --sh-degree"
            )
        self.device, self.nbytes, self.name, self.host = device, nbytes, name, host
        self.handle = vk.vkCreateBuffer(device.handle, vk.VkBufferCreateInfo(size=nbytes, usage=_USAGE), None)
        requirements = vk.vkGetBufferMemoryRequirements(device.handle, self.handle)
        try:
            if host:
                self._memory = _allocate(device, requirements, _HOST, vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, name)
            else:
                self._memory = _allocate(device, requirements, 0, vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, name)
        except OutOfMemory:
            vk.vkDestroyBuffer(device.handle, self.handle, None)
            raise
        vk.vkBindBufferMemory(device.handle, self.handle, self._memory, 0)
        self._map = vk.vkMapMemory(device.handle, self._memory, 0, nbytes, 0) if host else None
        device.label(vk.VK_OBJECT_TYPE_BUFFER, self.handle, name)
        if poisoned():
            self.fill(POISON)

    def array(self, dtype=np.uint8) -> np.ndarray:
        """The mapped memory of a host buffer as a writable numpy array."""
        return np.frombuffer(self._map, np.uint8).view(dtype)

    def fill(self, word: int) -> None:
        """Every 32-bit word of the buffer := word, now."""
        if self.host:
            self.array(np.uint32)[:] = word
            return
        from app.gpu.recorder import once

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
        from app.gpu.recorder import once

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
        from app.gpu.recorder import once

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
    from app.gpu.recorder import once

    copies = [vk.VkBufferCopy(srcOffset=a, dstOffset=b, size=size) for a, b, size in regions if size]
    if copies:
        with once(source.device) as commands:
            vk.vkCmdCopyBuffer(commands, source.handle, target.handle, len(copies), copies)


_STAGING_BYTES = 32 << 20


def _staging(device: Device) -> Buffer:
    if not hasattr(device, "staging"):
        device.staging = Buffer(device, _STAGING_BYTES, "staging", host=True)
    return device.staging


class Image:
    """A 2D colour image that can be drawn to, stored to, sampled and read as input attachment; always in the layout GENERAL.

    format: a VkFormat number; texel: numpy dtype of one channel as downloaded; 4 channels.
    """

    def __init__(self, device: Device, width: int, height: int, format: int, texel, name: str):
        if max(width, height) > device.max_image:
            raise OutOfMemory(f"a {width}x{height} image is larger than {device.name} allows ({device.max_image}): raise --data-factor")
        self.device, self.width, self.height, self.format, self.texel, self.name = device, width, height, format, np.dtype(texel), name
        usage = (
            vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT
            | vk.VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT
            | vk.VK_IMAGE_USAGE_STORAGE_BIT
            | vk.VK_IMAGE_USAGE_SAMPLED_BIT
            | vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT
            | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
        )
        info = vk.VkImageCreateInfo(
            imageType=vk.VK_IMAGE_TYPE_2D,
            format=format,
            extent=vk.VkExtent3D(width, height, 1),
            mipLevels=1,
            arrayLayers=1,
            samples=vk.VK_SAMPLE_COUNT_1_BIT,
            tiling=vk.VK_IMAGE_TILING_OPTIMAL,
            usage=usage,
            initialLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
        )
        self.handle = vk.vkCreateImage(device.handle, info, None)
        requirements = vk.vkGetImageMemoryRequirements(device.handle, self.handle)
        self.nbytes = requirements.size
        self._memory = _allocate(device, requirements, 0, vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, name)
        vk.vkBindImageMemory(device.handle, self.handle, self._memory, 0)
        self.range = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)
        self.view = vk.vkCreateImageView(
            device.handle,
            vk.VkImageViewCreateInfo(image=self.handle, viewType=vk.VK_IMAGE_VIEW_TYPE_2D, format=format, subresourceRange=self.range),
            None,
        )
        device.label(vk.VK_OBJECT_TYPE_IMAGE, self.handle, name)
        self._to_general()

    def _to_general(self) -> None:
        from app.gpu.recorder import once

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
            if poisoned():
                value = vk.ffi.new("VkClearColorValue*", {"float32": [0.37, 0.61, 0.83, 0.29]})
                vk.vkCmdClearColorImage(commands, self.handle, vk.VK_IMAGE_LAYOUT_GENERAL, value, 1, [self.range])

    def _copy(self, buffer: Buffer, to_image: bool) -> None:
        from app.gpu.recorder import once

        region = vk.VkBufferImageCopy(
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageExtent=vk.VkExtent3D(self.width, self.height, 1),
        )
        general = vk.VK_IMAGE_LAYOUT_GENERAL
        with once(self.device) as commands:
            if to_image:
                vk.vkCmdCopyBufferToImage(commands, buffer.handle, self.handle, general, 1, [region])
            else:
                vk.vkCmdCopyImageToBuffer(commands, self.handle, general, buffer.handle, 1, [region])

    def download(self) -> np.ndarray:
        """(height, width, 4) in `texel`, now."""
        shape = (self.height, self.width, 4)
        staging = Buffer(self.device, int(np.prod(shape)) * self.texel.itemsize, f"{self.name} read-back", host=True)
        self._copy(staging, to_image=False)
        out = staging.array(self.texel)[: int(np.prod(shape))].reshape(shape).copy()
        staging.destroy()
        return out

    def upload(self, texels: np.ndarray) -> None:
        """From (height, width, 4) in `texel`, now."""
        texels = np.ascontiguousarray(texels, self.texel)
        if texels.shape != (self.height, self.width, 4):
            raise ValueError(f"{self.name} is ({self.height}, {self.width}, 4), got {texels.shape}")
        staging = Buffer(self.device, texels.nbytes, f"{self.name} upload", host=True)
        staging.upload(texels)
        self._copy(staging, to_image=True)
        staging.destroy()

    def destroy(self) -> None:
        if self.handle is not None:
            vk.vkDestroyImageView(self.device.handle, self.view, None)
            vk.vkDestroyImage(self.device.handle, self.handle, None)
            vk.vkFreeMemory(self.device.handle, self._memory, None)
            self.handle = self.view = None
