"""Images, each with its own allocation, always in the layout GENERAL."""

from __future__ import annotations

import numpy as np
import vulkan as vk

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import once
from hardsplat.gpu.memory.allocation import allocate_memory, poisoned
from hardsplat.gpu.memory.buffer import STAGING_BYTES, staging_of

_IMAGE_USAGE = (
    vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT
    | vk.VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT
    | vk.VK_IMAGE_USAGE_STORAGE_BIT
    | vk.VK_IMAGE_USAGE_SAMPLED_BIT
    | vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT
    | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
)
DEPTH_FORMAT = vk.VK_FORMAT_D32_SFLOAT


def _check_image(
    device: Device, width: int, height: int, format: int, usage: int, texel_bytes: int, name: str
) -> None:
    """Raises OutOfMemory for a size, UserError for a format, that the device's images of our usage
    cannot have."""
    try:
        limits = vk.vkGetPhysicalDeviceImageFormatProperties(
            device.physical.handle,
            format,
            vk.VK_IMAGE_TYPE_2D,
            vk.VK_IMAGE_TILING_OPTIMAL,
            usage,
            0,
        )
    except vk.VkErrorFormatNotSupported:
        raise UserError(
            f"{device.name} has no images of VkFormat {format} for {name}; choose another "
            "--format or --state-format"
        ) from None
    side = min(device.max_image, limits.maxExtent.width, limits.maxExtent.height)
    if max(width, height) > side:
        raise OutOfMemory(
            f"a {width}x{height} image is larger than {device.name} allows ({side} a side)",
            "pixels",
        )
    if (nbytes := width * height * texel_bytes) > min(
        limits.maxResourceSize, device.max_allocation
    ):
        raise OutOfMemory(
            f"a {width}x{height} image of {nbytes >> 20} MiB is larger than {device.name} allows",
            "pixels",
        )


class Image:
    """A 2D colour image that can be drawn to, stored to, sampled and read as input attachment;
    always in the layout GENERAL.

    format: a VkFormat number; texel: numpy dtype of one channel as downloaded; 4 channels.
    """

    usage, aspect, channels = _IMAGE_USAGE, vk.VK_IMAGE_ASPECT_COLOR_BIT, 4

    def __init__(self, device: Device, width: int, height: int, format: int, texel, name: str):
        _check_image(
            device,
            width,
            height,
            format,
            self.usage,
            self.channels * np.dtype(texel).itemsize,
            name,
        )
        self.device, self.width, self.height, self.format, self.texel, self.name = (
            device,
            width,
            height,
            format,
            np.dtype(texel),
            name,
        )
        info = vk.VkImageCreateInfo(
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
        self.handle = vk.vkCreateImage(device.handle, info, None)
        requirements = vk.vkGetImageMemoryRequirements(device.handle, self.handle)
        self.nbytes = requirements.size
        try:
            self._memory = allocate_memory(
                device,
                requirements,
                0,
                vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                name,
                grows_with="pixels",
            )
        except OutOfMemory:
            vk.vkDestroyImage(device.handle, self.handle, None)
            raise
        vk.vkBindImageMemory(device.handle, self.handle, self._memory, 0)
        self.range = vk.VkImageSubresourceRange(self.aspect, 0, 1, 0, 1)
        self.view = vk.vkCreateImageView(
            device.handle,
            vk.VkImageViewCreateInfo(
                image=self.handle,
                viewType=vk.VK_IMAGE_VIEW_TYPE_2D,
                format=format,
                subresourceRange=self.range,
            ),
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
            vk.vkCmdPipelineBarrier(
                commands, everything, everything, 0, 0, None, 0, None, 1, [barrier]
            )
            if poisoned() and self.aspect == vk.VK_IMAGE_ASPECT_COLOR_BIT:
                value = vk.ffi.new("VkClearColorValue*", {"float32": [0.37, 0.61, 0.83, 0.29]})
                vk.vkCmdClearColorImage(
                    commands, self.handle, vk.VK_IMAGE_LAYOUT_GENERAL, value, 1, [self.range]
                )

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
                vk.vkCmdCopyImageToBuffer(
                    commands,
                    self.handle,
                    vk.VK_IMAGE_LAYOUT_GENERAL,
                    staging.handle,
                    1,
                    [self.region(top, height)],
                )
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
                vk.vkCmdCopyBufferToImage(
                    commands,
                    staging.handle,
                    self.handle,
                    vk.VK_IMAGE_LAYOUT_GENERAL,
                    1,
                    [self.region(top, height)],
                )

    def destroy(self) -> None:
        if self.handle is not None:
            vk.vkDestroyImageView(self.device.handle, self.view, None)
            vk.vkDestroyImage(self.device.handle, self.handle, None)
            vk.vkFreeMemory(self.device.handle, self._memory, None)
            self.handle = self.view = None


class DepthImage(Image):
    """What draws test depth against. They alone read and write it."""

    usage, aspect, channels = (
        vk.VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT,
        vk.VK_IMAGE_ASPECT_DEPTH_BIT,
        1,
    )

    def __init__(self, device: Device, width: int, height: int, name: str):
        super().__init__(device, width, height, DEPTH_FORMAT, np.float32, name)
