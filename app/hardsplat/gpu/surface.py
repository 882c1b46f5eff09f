"""A window's swapchain: shows an image of ours without ever waiting for the screen. The window
itself is app/hardsplat/view/window.py.

glfw is imported here and in app/hardsplat/view alone, and only when a window is asked for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import glfw
import vulkan as vk

from hardsplat.base.errors import OutOfMemory, UserError, undone
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, begin, free, submit
from hardsplat.gpu.memory.image import Image, change_layout, record_blit

# colours are stored as they are trained
_FORMATS = [
    getattr(vk, f"VK_FORMAT_{name}")
    for name in ("B8G8R8A8_UNORM", "R8G8B8A8_UNORM", "A8B8G8R8_UNORM_PACK32")
]
_MODES = [getattr(vk, f"VK_PRESENT_MODE_{m}_KHR") for m in ("MAILBOX", "IMMEDIATE", "FIFO")]
_CHANGED = (  # errors of a window that has changed
    vk.VkErrorSurfaceLostKhr,
    vk.VkErrorOutOfDateKhr,
    vk.VkErrorNativeWindowInUseKhr,
    vk.VkErrorInitializationFailed,
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
        with undone(self.destroy):
            self._surface = self._of_window()
            self._choose()

    def _of_window(self):
        out, instance = vk.ffi.new("VkSurfaceKHR*"), self.device.instance.handle
        if glfw.create_window_surface(instance, self.window, None, out) != vk.VK_SUCCESS:
            raise UserError(f"{self.device.name} cannot draw to a window of this display")
        destroy = self.device.instance.proc("vkDestroySurfaceKHR")
        end = lambda device, *surface: destroy(instance, *surface)  # noqa: E731
        return self.device.own("SurfaceKHR", out[0], end)

    def _ask(self, what: str, *before):
        """What vkGetPhysicalDeviceSurface`what`KHR reports of the surface."""
        proc = self.device.instance.proc(f"vkGetPhysicalDeviceSurface{what}KHR")
        return proc(self.device.physical.handle, *before, self._surface)

    def _choose(self) -> None:
        if not self._ask("Support", self.device.physical.queue_family):
            raise UserError(f"{self.device.name} cannot draw to a window of this display")
        offered = {f.format: f.colorSpace for f in self._ask("Formats")}
        self._format = next((f for f in _FORMATS if f in offered), None)
        usages = self._ask("Capabilities").supportedUsageFlags
        if self._format is None or not usages & vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT:
            what = f"no 8-bit images that {self.device.name} can copy to"
            raise UserError(f"windows of this display have {what}")
        self._space = offered[self._format]
        modes = list(self._ask("PresentModes"))
        self._mode = next(mode for mode in _MODES if mode in modes)  # FIFO is always there

    def fit(self) -> bool:
        """A swapchain of the window's size where there is none that is. No frame may be in flight.
        False: the window has no size now."""
        if not self.stale:
            return True
        try:
            c = self._ask("Capabilities")
        except vk.VkErrorSurfaceLostKhr:
            self._drop()
            self._lose()
            self._surface = self._of_window()
            c = self._ask("Capabilities")
        width, height = c.currentExtent.width, c.currentExtent.height
        if width == _FREE_SIZE:
            least, most = c.minImageExtent, c.maxImageExtent
            width, height = glfw.get_framebuffer_size(self.window)
            width = min(max(width, least.width), most.width)
            height = min(max(height, least.height), most.height)
        if min(width, height) == 0:  # minimized
            return False
        try:
            made = self._swapchain_of(c, width, height)
        except _CHANGED:
            self._drop()  # what became of the window shows the next time
            return False
        except (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory):
            what = f"a window of {width}x{height} px does not fit"
            raise OutOfMemory(f"{self.device.name} is out of memory: {what}") from None
        self._drop()
        self._swapchain, self.width, self.height, self.stale = made, width, height, False
        self._images = list(self.device.proc("vkGetSwapchainImagesKHR")(self.device.handle, made))
        self._done = [self.device.create("Semaphore") for _ in self._images]
        return True

    def _swapchain_of(self, c, width: int, height: int):
        """A swapchain that replaces the one there is. c: capabilities of the surface."""
        opaque = vk.VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
        inherit = vk.VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR
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
            compositeAlpha=opaque if c.supportedCompositeAlpha & opaque else inherit,
            presentMode=self._mode,
            clipped=True,
            oldSwapchain=self._swapchain,
        )
        device, end = self.device, self.device.proc("vkDestroySwapchainKHR")
        made = device.proc("vkCreateSwapchainKHR")(device.handle, info, None)
        return device.own("SwapchainKHR", made, end)

    def _drop(self) -> None:
        """Destroys the swapchain. Waits for the device: nothing else tells when the last image was
        shown."""
        if self._swapchain is None:
            return
        with suppress(DeviceLost):
            self.device.wait_idle()
            if self._index is not None:  # the driver must be done with its fence
                self._free.wait()
        if self._index is not None:
            self._free.reset()
        for semaphore in self._done:
            self.device.destroy("Semaphore", semaphore)
        self.device.destroy("SwapchainKHR", self._swapchain)
        self._swapchain = self._index = None
        self._images, self._done, self.stale = [], [], True
        self.width = self.height = 0

    def ready(self) -> bool:
        """Whether an image of the swapchain can be drawn to now. Never waits."""
        if self._swapchain is None or self.stale:
            return False
        if self._index is None:
            try:
                with self.device.answering():
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
            self._index = self._found[0]
        return self._free.done()

    def present(self, commands: list, image: Image, width: int, height: int, fence: Fence) -> None:
        """Queues `commands`, shows the upper left width x height px of `image`, which they drew,
        and signals the fence. After ready()."""
        if self._index is None:
            raise RuntimeError("present() needs a ready() that returned True")
        index, self._index = self._index, None
        self._free.reset()
        self._record(self._images[index], image, width, height)
        submit(self.device, [*commands, self._commands], fence, signal=self._done[index])
        waits, shown = [self._done[index]], [self._swapchain]
        info = vk.VkPresentInfoKHR(pWaitSemaphores=waits, pSwapchains=shown, pImageIndices=[index])
        try:
            with self.device.answering():
                self.device.proc("vkQueuePresentKHR")(self.device.queue, info)
        except (vk.VkSuboptimalKhr, vk.VkErrorOutOfDateKhr, vk.VkErrorSurfaceLostKhr):
            self.stale = True
        self.device.check_validation()

    def _record(self, shown, image: Image, width: int, height: int) -> None:
        """image -> an image of the swapchain, whose order of channels the blit sees to; scaled
        while the window is being resized."""
        self._commands = begin(self.device, self._commands)
        target, written = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, vk.VK_ACCESS_MEMORY_WRITE_BIT
        undefined, present = vk.VK_IMAGE_LAYOUT_UNDEFINED, vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR
        change_layout(self._commands, shown, image.range, undefined, target, written)
        source, general = image.handle, vk.VK_IMAGE_LAYOUT_GENERAL
        size, place = (width, height), (self.width, self.height)
        record_blit(self._commands, source, general, shown, target, size, place)
        change_layout(self._commands, shown, image.range, target, present, written)
        vk.vkEndCommandBuffer(self._commands)

    def destroy(self) -> None:
        """Destroys the surface and its swapchain; may be called again."""
        self._drop()
        self._lose()
        if self._commands is not None:
            free(self.device, self._commands)
            self._commands = None
        self._free.destroy()

    def _lose(self) -> None:
        if self._surface is not None:
            self.device.destroy("SurfaceKHR", self._surface)
            self._surface = None
