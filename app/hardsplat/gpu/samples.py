"""Images of several samples a pixel: which a device has, and those that hold numbers."""

from __future__ import annotations

import numpy as np
import vulkan as vk

from hardsplat.gpu.context import Device
from hardsplat.gpu.image import DEPTH_FORMAT, DepthImage, Image

NUMBER_FORMAT = vk.VK_FORMAT_R32_UINT


class NumberImage(Image):
    """A number for every sample of a pixel (R32_UINT), which can be drawn to and read by texelFetch."""

    usage, channels = vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | vk.VK_IMAGE_USAGE_SAMPLED_BIT | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT, 1

    def __init__(self, device: Device, width: int, height: int, name: str, samples: int = 1):
        super().__init__(device, width, height, NUMBER_FORMAT, np.uint32, name, samples)


def sample_counts(device: Device) -> tuple[int, ...]:
    """How many samples a pixel can have where draws write numbers and test depth, ascending; 1 is always among them."""
    physical, counts = device.physical.handle, 15  # 1, 2, 4 and 8
    for kind, format in ((NumberImage, NUMBER_FORMAT), (DepthImage, DEPTH_FORMAT)):
        # Not framebufferIntegerColorSampleCounts, which is what all formats have in common: lavapipe says 1 there, and draws with 4.
        found = vk.vkGetPhysicalDeviceImageFormatProperties(physical, format, vk.VK_IMAGE_TYPE_2D, vk.VK_IMAGE_TILING_OPTIMAL, kind.usage, 0)
        counts &= found.sampleCounts
    return tuple(n for n in (1, 2, 4, 8) if n == 1 or counts & n)
