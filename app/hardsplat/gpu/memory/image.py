"""Images, each with its own allocation, always in the layout GENERAL."""

from __future__ import annotations

import numpy as np
import vulkan as vk

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.features import bits
from hardsplat.gpu.device.queue import ALL, READ_WRITE, once
from hardsplat.gpu.memory.allocation import Allocation, poisoned
from hardsplat.gpu.memory.buffer import STAGING_BYTES, Buffer, staging_of

_USES = "COLOR_ATTACHMENT INPUT_ATTACHMENT STORAGE SAMPLED TRANSFER_SRC TRANSFER_DST"
_IMAGE_USAGE = bits("VK_IMAGE_USAGE_{}_BIT", *_USES.split())
DEPTH_FORMAT = vk.VK_FORMAT_D32_SFLOAT


class Image:
    """A 2D colour image that can be drawn to, stored to, sampled and read as input attachment;
    always in the layout GENERAL.

    format: a VkFormat number; texel: numpy dtype of one channel as downloaded; 4 channels. Raises
    OutOfMemory for a size, UserError for a format, that the device's images of our usage cannot
    have.
    """

    usage, aspect, channels = _IMAGE_USAGE, vk.VK_IMAGE_ASPECT_COLOR_BIT, 4

    def __init__(self, device: Device, width: int, height: int, format: int, texel, name: str):
        self.device, self.width, self.height = device, width, height
        self.format, self.texel, self.name = format, np.dtype(texel), name
        self._check()
        self._allocation = Allocation(
            device,
            "Image",
            name,
            grows_with="pixels",
            imageType=vk.VK_IMAGE_TYPE_2D,
            format=format,
            extent=vk.VkExtent3D(width, height, 1),
            mipLevels=1,
            arrayLayers=1,
            samples=vk.VK_SAMPLE_COUNT_1_BIT,
            tiling=vk.VK_IMAGE_TILING_OPTIMAL,
            usage=self.usage,
            initialLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
        )
        self.handle, self.nbytes = self._allocation.handle, self._allocation.nbytes
        self.range = vk.VkImageSubresourceRange(self.aspect, 0, 1, 0, 1)
        self.view = device.create(
            "ImageView",
            image=self.handle,
            viewType=vk.VK_IMAGE_VIEW_TYPE_2D,
            format=format,
            subresourceRange=self.range,
        )
        device.label(vk.VK_OBJECT_TYPE_IMAGE, self.handle, name)
        self._to_general()

    def _check(self) -> None:
        device, physical = self.device, self.device.physical.handle
        kind, tiling = vk.VK_IMAGE_TYPE_2D, vk.VK_IMAGE_TILING_OPTIMAL
        properties_of = vk.vkGetPhysicalDeviceImageFormatProperties
        try:
            limits = properties_of(physical, self.format, kind, tiling, self.usage, 0)
        except vk.VkErrorFormatNotSupported:
            raise UserError(
                f"{device.name} has no images of VkFormat {self.format} for {self.name}; choose "
                "another --format or --state-format"
            ) from None
        what = f"a {self.width}x{self.height} image"
        side = min(device.max_image, limits.maxExtent.width, limits.maxExtent.height)
        if max(self.width, self.height) > side:
            why = f"{what} is larger than {device.name} allows ({side} a side)"
            raise OutOfMemory(why, "pixels")
        nbytes = self.width * self.height * self.channels * self.texel.itemsize
        if nbytes > min(limits.maxResourceSize, device.max_allocation):
            why = f"{what} of {nbytes >> 20} MiB is larger than {device.name} allows"
            raise OutOfMemory(why, "pixels")

    def _to_general(self) -> None:
        with once(self.device) as commands:
            new = vk.VK_IMAGE_LAYOUT_GENERAL
            change_layout(commands, self.handle, self.range, vk.VK_IMAGE_LAYOUT_UNDEFINED, new)
            if poisoned() and self.aspect == vk.VK_IMAGE_ASPECT_COLOR_BIT:
                value = vk.ffi.new("VkClearColorValue*", {"float32": [0.37, 0.61, 0.83, 0.29]})
                vk.vkCmdClearColorImage(commands, self.handle, new, value, 1, [self.range])

    def _bands(self):
        """(top, height) of the bands that fit in the staging buffer, whatever the image's size."""
        height = max(1, STAGING_BYTES // (self.width * 4 * self.texel.itemsize))
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
        staging = staging_of(self.device)
        for top, height in self._bands():
            part = out[top : top + height]
            with once(self.device) as commands:
                self.record_read(commands, staging, self.region(top, height))
            part[:] = staging.array()[: part.nbytes].view(self.texel).reshape(part.shape)
        return out

    def upload(self, texels: np.ndarray) -> None:
        """From (height, width, 4) in `texel`, now."""
        texels = np.ascontiguousarray(texels, self.texel)
        if texels.shape != (self.height, self.width, 4):
            raise ValueError(f"{self.name} is ({self.height}, {self.width}, 4), got {texels.shape}")
        staging = staging_of(self.device)
        for top, height in self._bands():
            staging.upload(texels[top : top + height])
            with once(self.device) as commands:
                self.record_write(commands, staging, self.region(top, height))

    def record_read(self, commands, target: Buffer, region) -> None:
        """Records the copy of a region to a buffer, row by row."""
        general = vk.VK_IMAGE_LAYOUT_GENERAL
        vk.vkCmdCopyImageToBuffer(commands, self.handle, general, target.handle, 1, [region])

    def record_write(self, commands, source: Buffer, region) -> None:
        """Records the copy of a buffer to a region, row by row."""
        general = vk.VK_IMAGE_LAYOUT_GENERAL
        vk.vkCmdCopyBufferToImage(commands, source.handle, self.handle, general, 1, [region])

    def destroy(self) -> None:
        if self.handle is not None:
            self.device.destroy("ImageView", self.view)
            self._allocation.free()
            self.handle = self.view = None


def change_layout(commands, image, subresources, old: int, new: int, source: int = 0) -> None:
    """Records that an image (a VkImage) changes its layout, after accesses of `source` and before
    all others."""
    barrier = vk.VkImageMemoryBarrier(
        srcAccessMask=source,
        dstAccessMask=READ_WRITE,
        oldLayout=old,
        newLayout=new,
        srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        image=image,
        subresourceRange=subresources,
    )
    vk.vkCmdPipelineBarrier(commands, ALL, ALL, 0, 0, None, 0, None, 1, [barrier])


def record_blit(
    commands, source, old: int, target, new: int, size: tuple[int, int], place: tuple[int, int]
) -> None:
    """Records the copy of the upper left `size` px of a VkImage in the layout `old` over the upper
    left `place` px of one in the layout `new`, smoothly where they differ."""
    layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
    here, there = ([vk.VkOffset3D(0, 0, 0), vk.VkOffset3D(*end, 1)] for end in (size, place))
    region = vk.VkImageBlit(
        srcSubresource=layers, srcOffsets=here, dstSubresource=layers, dstOffsets=there
    )
    kind = vk.VK_FILTER_NEAREST if size == place else vk.VK_FILTER_LINEAR
    vk.vkCmdBlitImage(commands, source, old, target, new, 1, [region], kind)


class DepthImage(Image):
    """What draws test depth against. They alone read and write it."""

    usage, channels = vk.VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT, 1
    aspect = vk.VK_IMAGE_ASPECT_DEPTH_BIT

    def __init__(self, device: Device, width: int, height: int, name: str):
        super().__init__(device, width, height, DEPTH_FORMAT, np.float32, name)
