"""A window's swapchain: shows an image of ours without ever waiting for the screen. The window
itself is app/hardsplat/view/window.py.

glfw is imported here and in app/hardsplat/view alone, and only when a window is asked for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import glfw
import vulkan as vk

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, begin, submit
from hardsplat.gpu.memory.image import Image

_ALL = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
_FORMATS = (
    vk.VK_FORMAT_B8G8R8A8_UNORM,
    vk.VK_FORMAT_R8G8B8A8_UNORM,
    vk.VK_FORMAT_A8B8G8R8_UNORM_PACK32,
)  # colours are stored as they are trained
_MODES = (
    vk.VK_PRESENT_MODE_MAILBOX_KHR,
    vk.VK_PRESENT_MODE_IMMEDIATE_KHR,
    vk.VK_PRESENT_MODE_FIFO_KHR,
)
_FREE_SIZE = 0xFFFFFFFF  # the surface takes the size of its swapchain


def extensions() -> list[str]:
    """Instance extensions that a window needs on this system; glfw must be initialized. Raises
    UserError where Vulkan has no windows."""
    names = glfw.get_required_instance_extensions()
    if not names:
        raise UserError(
            "Vulkan cannot draw to windows here: the loader or the driver has no surface "
            "for this display"
        )
    return [name.decode() if isinstance(name, bytes) else name for name in names]


class Surface:
    """The swapchain of a glfw window on a device that was opened with `extensions()`.

    An image of the swapchain is acquired with a timeout of 0 and a fence that `ready` looks at.
    So neither the host nor the queue, which training shares, waits for the screen. When no image
    is free, the frame is left out. width, height: of the swapchain in px, 0 without one. Raises
    UserError where this device cannot draw to this window.
    """

    def __init__(self, device: Device, window):
        self.device, self.window = device, window
        self.width = self.height = 0
        self.stale = True  # the swapchain no longer fits the window, or there is none yet
        self._swapchain: Any = None
        self._index: int | None = None  # of the image that was acquired
        self._images: list = []
        self._done: list = []  # semaphores that presenting waits for, one an image
        self._found = vk.ffi.new("uint32_t*")
        if "swapchain" not in device.capabilities:
            raise UserError(f"{device.name} cannot show windows: it lacks VK_KHR_swapchain")
        self._commands = self._surface = None
        self._free = Fence(device)
        try:
            self._surface = self._of_window()
            self._choose()
        except UserError:
            self.destroy()
            raise

    # -- the surface -------------------------------------------------------------------------------

    def _of_window(self):
        out = vk.ffi.new("VkSurfaceKHR*")
        if (
            glfw.create_window_surface(self.device.instance.handle, self.window, None, out)
            != vk.VK_SUCCESS
        ):
            raise UserError(f"{self.device.name} cannot draw to a window of this display")
        return out[0]

    def _ask(self, name: str, *arguments):
        return vk.vkGetInstanceProcAddr(self.device.instance.handle, name)(*arguments)

    def _choose(self) -> None:
        physical = self.device.physical
        if not self._ask(
            "vkGetPhysicalDeviceSurfaceSupportKHR",
            physical.handle,
            physical.queue_family,
            self._surface,
        ):
            raise UserError(f"{self.device.name} cannot draw to a window of this display")
        offered = {
            f.format: f.colorSpace
            for f in self._ask(
                "vkGetPhysicalDeviceSurfaceFormatsKHR", physical.handle, self._surface
            )
        }
        self._format = next((f for f in _FORMATS if f in offered), None)
        usages = self._capabilities().supportedUsageFlags
        if self._format is None or not usages & vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT:
            raise UserError(
                f"windows of this display have no 8-bit images that {self.device.name} can copy to"
            )
        self._space = offered[self._format]
        modes = self._ask(
            "vkGetPhysicalDeviceSurfacePresentModesKHR", physical.handle, self._surface
        )
        self._mode = next(m for m in _MODES if m in list(modes))  # FIFO is always there

    def _capabilities(self):
        return self._ask(
            "vkGetPhysicalDeviceSurfaceCapabilitiesKHR", self.device.physical.handle, self._surface
        )

    # -- the swapchain -----------------------------------------------------------------------------

    def fit(self) -> bool:
        """A swapchain of the window's size where there is none that is. No frame may be in flight.
        False: the window has no size now."""
        if not self.stale:
            return True
        try:
            c = self._capabilities()
        except vk.VkErrorSurfaceLostKhr:
            self._drop()
            self._lose()
            self._surface = self._of_window()
            c = self._capabilities()
        width, height = c.currentExtent.width, c.currentExtent.height
        if width == _FREE_SIZE:
            wanted, least, most = (
                glfw.get_framebuffer_size(self.window),
                c.minImageExtent,
                c.maxImageExtent,
            )
            width, height = (
                min(max(wanted[0], least.width), most.width),
                min(max(wanted[1], least.height), most.height),
            )
        if min(width, height) == 0:  # minimized
            return False
        old = self._swapchain
        opaque = vk.VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
        info = vk.VkSwapchainCreateInfoKHR(
            surface=self._surface,
            minImageCount=min(max(c.minImageCount + 1, 3), c.maxImageCount or 3),
            imageFormat=self._format,
            imageColorSpace=self._space,
            imageExtent=vk.VkExtent2D(width, height),
            imageArrayLayers=1,
            imageUsage=vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT,
            imageSharingMode=vk.VK_SHARING_MODE_EXCLUSIVE,
            preTransform=c.currentTransform,
            compositeAlpha=opaque
            if c.supportedCompositeAlpha & opaque
            else vk.VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR,
            presentMode=self._mode,
            clipped=True,
            oldSwapchain=old,
        )
        try:
            made = self.device.proc("vkCreateSwapchainKHR")(self.device.handle, info, None)
        except (
            vk.VkErrorSurfaceLostKhr,
            vk.VkErrorOutOfDateKhr,
            vk.VkErrorNativeWindowInUseKhr,
            vk.VkErrorInitializationFailed,
        ):
            self._drop()  # what became of the window shows the next time
            return False
        except (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory):
            raise OutOfMemory(
                f"{self.device.name} is out of memory: a window of {width}x{height} px does not fit"
            ) from None
        self._drop()
        self._swapchain, self.width, self.height, self.stale = made, width, height, False
        self._images = list(self.device.proc("vkGetSwapchainImagesKHR")(self.device.handle, made))
        self._done = [
            vk.vkCreateSemaphore(self.device.handle, vk.VkSemaphoreCreateInfo(), None)
            for _ in self._images
        ]
        return True

    def _drop(self) -> None:
        """Destroys the swapchain. Waits for the device: nothing else tells when the last image was
        shown."""
        if self._swapchain is None:
            return
        with suppress(DeviceLost):
            self.device.wait_idle()
            if (
                self._index is not None
            ):  # its fence must not be used again before the driver is done with it
                self._free.wait()
        if self._index is not None:
            self._free.reset()
        for semaphore in self._done:
            vk.vkDestroySemaphore(self.device.handle, semaphore, None)
        self.device.proc("vkDestroySwapchainKHR")(self.device.handle, self._swapchain, None)
        self._swapchain = self._index = None
        self._images, self._done, self.stale = [], [], True
        self.width = self.height = 0

    # -- frames ------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether an image of the swapchain can be drawn to now. Never waits."""
        if self._swapchain is None or self.stale:
            return False
        if self._index is None:
            try:
                self.device.proc("vkAcquireNextImageKHR")(
                    self.device.handle, self._swapchain, 0, None, self._free.handle, self._found
                )
            except (vk.VkNotReady, vk.VkTimeout):
                return False
            except (vk.VkErrorOutOfDateKhr, vk.VkErrorSurfaceLostKhr):
                self.stale = True
                return False
            except vk.VkSuboptimalKhr:
                pass  # an image it is
            except vk.VkErrorDeviceLost:
                raise DeviceLost(f"{self.device.name} stopped answering") from None
            self._index = self._found[0]
        return self._free.done()

    def present(self, commands: list, image: Image, width: int, height: int, fence: Fence) -> None:
        """Queues `commands`, shows the upper left width x height px of `image`, which they drew,
        and signals the fence. After ready()."""
        if self._index is None:
            raise RuntimeError("present() needs a ready() that says yes before it")
        index, self._index = self._index, None
        self._free.reset()
        self._record(self._images[index], image, width, height)
        submit(self.device, [*commands, self._commands], fence, signal=self._done[index])
        info = vk.VkPresentInfoKHR(
            pWaitSemaphores=[self._done[index]],
            pSwapchains=[self._swapchain],
            pImageIndices=[index],
        )
        try:
            self.device.proc("vkQueuePresentKHR")(self.device.queue, info)
        except (vk.VkSuboptimalKhr, vk.VkErrorOutOfDateKhr, vk.VkErrorSurfaceLostKhr):
            self.stale = True
        except vk.VkErrorDeviceLost:
            raise DeviceLost(f"{self.device.name} stopped answering") from None
        self.device.check_validation()

    def _record(self, shown, image: Image, width: int, height: int) -> None:
        """image -> an image of the swapchain, whose order of channels the blit sees to; scaled
        while the window is being resized."""
        self._commands = begin(self.device, self._commands)
        undefined, target, present = (
            vk.VK_IMAGE_LAYOUT_UNDEFINED,
            vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
            vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR,
        )
        self._turn(shown, image.range, undefined, target)
        layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        region = vk.VkImageBlit(
            srcSubresource=layers,
            srcOffsets=[vk.VkOffset3D(0, 0, 0), vk.VkOffset3D(width, height, 1)],
            dstSubresource=layers,
            dstOffsets=[vk.VkOffset3D(0, 0, 0), vk.VkOffset3D(self.width, self.height, 1)],
        )
        exact = (width, height) == (self.width, self.height)
        how = vk.VK_FILTER_NEAREST if exact else vk.VK_FILTER_LINEAR
        vk.vkCmdBlitImage(
            self._commands,
            image.handle,
            vk.VK_IMAGE_LAYOUT_GENERAL,
            shown,
            target,
            1,
            [region],
            how,
        )
        self._turn(shown, image.range, target, present)
        vk.vkEndCommandBuffer(self._commands)

    def _turn(self, shown, everything, old: int, new: int) -> None:
        barrier = vk.VkImageMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_MEMORY_WRITE_BIT,
            dstAccessMask=vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT,
            oldLayout=old,
            newLayout=new,
            srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            image=shown,
            subresourceRange=everything,
        )
        vk.vkCmdPipelineBarrier(self._commands, _ALL, _ALL, 0, 0, None, 0, None, 1, [barrier])

    def destroy(self) -> None:
        """Destroys the surface and its swapchain; may be called again."""
        self._drop()
        self._lose()
        self._free.destroy()

    def _lose(self) -> None:
        if self._surface is not None:
            self._ask("vkDestroySurfaceKHR", self.device.instance.handle, self._surface, None)
            self._surface = None
