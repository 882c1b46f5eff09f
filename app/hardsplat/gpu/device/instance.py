"""The Vulkan instance, and the physical devices that it lists."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardsplat.base.errors import UserError

try:
    import vulkan as vk
except OSError as error:  # the loader itself is absent
    raise UserError(
        "no Vulkan loader on this machine: install libvulkan1 (Debian/Ubuntu), the GPU "
        "vendor's driver, or the Vulkan SDK"
    ) from error

from hardsplat.gpu.device import capabilities, drivers

_TYPES = {
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: (0, "discrete GPU"),
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: (1, "integrated GPU"),
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: (2, "virtual GPU"),
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU: (4, "CPU"),
}
VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"

# an older loader asking a newer layer about functions that hardsplat never calls
_OF_THE_LOADER = "vkGetDeviceProcAddr(): "
NO_DEVICE = (
    "no Vulkan device: install a GPU driver with Vulkan 1.2, or Mesa's software renderer "
    "(Debian/Ubuntu: apt-get install mesa-vulkan-drivers)"
)

# of all instances, for the life of the process: a VkInstance outlives its Python object
_CALLBACKS: list = []


class ValidationError(Exception):
    """The validation layers complained; raised at the next build, submit or wait."""


def validation_wanted() -> str:
    """HARDSPLAT_VALIDATION: "" for none, "1" for the validation layer, "sync" to have it look for
    missing barriers too (slow)."""
    wanted = os.environ.get("HARDSPLAT_VALIDATION", "")
    if wanted not in ("", "0", "1", "sync"):
        raise UserError(f"HARDSPLAT_VALIDATION is {wanted}: choose 0, 1 or sync")
    return "" if wanted == "0" else wanted


def validation_layer() -> int:
    """Version of the installed validation layer, 0 without one."""
    return next(
        (
            p.specVersion
            for p in vk.vkEnumerateInstanceLayerProperties()
            if p.layerName == VALIDATION_LAYER
        ),
        0,
    )


class Instance:
    """validation: as `validation_wanted` returns it. Messages of the layer collect in `messages`.
    surfaces: extensions that a window needs."""

    def __init__(self, validation: str, surfaces: Sequence[str] = ()):
        self.messages: list[str] = []
        layers = [VALIDATION_LAYER] if validation else []
        self.validated_by = validation_layer() if validation else 0
        if validation and not self.validated_by:
            raise UserError(
                "HARDSPLAT_VALIDATION is set, but the layer is not installed "
                "(Debian/Ubuntu: apt-get install vulkan-validationlayers)"
            )
        offered = {e.extensionName for e in vk.vkEnumerateInstanceExtensionProperties(None)}
        extensions = [
            e
            for e in ("VK_EXT_debug_utils", "VK_KHR_portability_enumeration", *surfaces)
            if e in offered
        ]
        if vk.vkEnumerateInstanceVersion() < vk.VK_MAKE_VERSION(1, 2, 0):
            raise UserError(
                "the Vulkan loader is older than 1.2: update libvulkan1 or the Vulkan SDK"
            )
        synchronization = None
        if validation == "sync":
            extensions.append("VK_EXT_validation_features")  # the layer's own
            synchronization = vk.VkValidationFeaturesEXT(
                pEnabledValidationFeatures=[
                    vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
                ]
            )
        app_info = vk.VkApplicationInfo(
            pApplicationName="hardsplat",
            pEngineName="hardsplat",
            apiVersion=vk.VK_MAKE_VERSION(1, 2, 0),
        )
        info = vk.VkInstanceCreateInfo(
            pNext=synchronization,
            flags=1
            if "VK_KHR_portability_enumeration" in extensions
            else 0,  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
            pApplicationInfo=app_info,
            ppEnabledLayerNames=layers,
            ppEnabledExtensionNames=extensions,
        )
        try:
            self.handle = vk.vkCreateInstance(info, None)
        except vk.VkErrorIncompatibleDriver:
            raise UserError(f"{NO_DEVICE}; {drivers.explain()}") from None
        self.extensions = frozenset(extensions)
        self.debug_utils = "VK_EXT_debug_utils" in extensions
        self._messenger = None
        if validation and self.debug_utils:
            self._listen()

    def _listen(self) -> None:
        def on_message(severity, kinds, data, user):
            text = vk.ffi.string(data.pMessage).decode(errors="replace")
            if not text.startswith(_OF_THE_LOADER):
                self.messages.append(text)
            return 0

        # Raw cffi: the package keeps one Python callback a process, so the messages of every
        # instance would reach the newest.
        callback = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", on_message)
        _CALLBACKS.append(callback)
        info = vk.ffi.new("VkDebugUtilsMessengerCreateInfoEXT*")
        info.sType = vk.VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT
        info.messageSeverity = (
            vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
        )
        info.messageType = (
            vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT
        )
        info.pfnUserCallback = callback
        self._messenger = vk.vkGetInstanceProcAddr(self.handle, "vkCreateDebugUtilsMessengerEXT")(
            self.handle, info[0], None
        )

    def destroy(self) -> None:
        if self._messenger is not None:
            vk.vkGetInstanceProcAddr(self.handle, "vkDestroyDebugUtilsMessengerEXT")(
                self.handle, self._messenger, None
            )
        vk.vkDestroyInstance(self.handle, None)
        self.handle = self._messenger = None

    def physical_devices(self) -> list[PhysicalDevice]:
        """All devices with Vulkan 1.2 and a queue for graphics and compute, discrete first, CPU
        last. The position is the --device INDEX."""
        try:
            handles = vk.vkEnumeratePhysicalDevices(self.handle)
        except (vk.VkErrorInitializationFailed, vk.VkErrorIncompatibleDriver):
            handles = []
        found = [PhysicalDevice.of(h) for h in handles]
        usable = [d for d in found if d.queue_family is not None and d.api_version >= (1, 2)]
        return sorted(usable, key=lambda d: d.rank)


@dataclass(frozen=True)
class PhysicalDevice:
    handle: Any  # a VkPhysicalDevice
    name: str
    kind: str
    rank: int
    api_version: tuple[int, int]
    driver: str
    queue_family: int | None
    timestamp_bits: int
    compute_family: int | None = None  # that computes and does not draw, with as good a clock

    @classmethod
    def of(cls, handle) -> PhysicalDevice:
        p, driver = capabilities.properties(
            handle,
            "VkPhysicalDeviceDriverProperties",
            vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
        )
        rank, kind = _TYPES.get(p.deviceType, (3, "other"))
        wanted = vk.VK_QUEUE_GRAPHICS_BIT | vk.VK_QUEUE_COMPUTE_BIT
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(handle)
        family = next((i for i, f in enumerate(families) if f.queueFlags & wanted == wanted), None)
        bits = 0 if family is None else families[family].timestampValidBits
        compute = next(
            (
                i
                for i, f in enumerate(families)
                if f.queueFlags & wanted == vk.VK_QUEUE_COMPUTE_BIT and f.timestampValidBits >= bits
            ),
            None,
        )
        return cls(
            handle,
            vk.ffi.string(p.deviceName).decode(),
            kind,
            rank,
            (p.apiVersion >> 22 & 0x7F, p.apiVersion >> 12 & 0x3FF),
            (
                f"{vk.ffi.string(driver.driverName).decode()} "
                f"{vk.ffi.string(driver.driverInfo).decode()}"
            ).strip(),
            family,
            bits,
            compute,
        )


def choose(devices: list[PhysicalDevice], wanted: str | None) -> PhysicalDevice:
    """By index, or by part of the name; the first (a discrete GPU where there is one) when nothing
    is asked for."""
    if not devices:
        raise UserError(f"{NO_DEVICE}; {drivers.explain()}")
    if wanted in (None, ""):
        return devices[0]
    listing = ", ".join(f"{i}: {d.name}" for i, d in enumerate(devices))
    named = (
        f"HARDSPLAT_DEVICE={wanted}"
        if wanted == os.environ.get("HARDSPLAT_DEVICE")
        else f"--device {wanted}"
    )
    if wanted.isdigit():
        if int(wanted) >= len(devices):
            raise UserError(f"{named}: there is no such device; this machine has {listing}")
        return devices[int(wanted)]
    matching = [d for d in devices if wanted.lower() in d.name.lower()]
    if not matching:
        raise UserError(f"{named}: no device has this in its name; this machine has {listing}")
    return matching[0]
