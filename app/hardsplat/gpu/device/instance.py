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
from hardsplat.gpu.device.features import bits

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

_VERSION = vk.VK_MAKE_VERSION(1, 2, 0)
_PORTABILITY = "VK_KHR_portability_enumeration"
_ENUMERATE_PORTABILITY = 1  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
_SEVERITIES = bits("VK_DEBUG_UTILS_MESSAGE_SEVERITY_{}_BIT_EXT", "ERROR", "WARNING")
_MESSAGES = bits("VK_DEBUG_UTILS_MESSAGE_TYPE_{}_BIT_EXT", "VALIDATION", "GENERAL")

# of instances that are not destroyed: a VkInstance outlives its Python object
_CALLBACKS: dict[Any, Any] = {}
_LAST: list[Any] = []  # the VkInstance that keeps drivers loaded, see Instance.destroy


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
    layers = vk.vkEnumerateInstanceLayerProperties()
    return next((p.specVersion for p in layers if p.layerName == VALIDATION_LAYER), 0)


class Instance:
    """validation: as `validation_wanted` returns it. Messages of the layer collect in `messages`.
    surfaces: extensions that a window needs."""

    def __init__(self, validation: str, surfaces: Sequence[str] = ()):
        self.messages: list[str] = []
        self.validated_by = validation_layer() if validation else 0
        if validation and not self.validated_by:
            raise UserError(
                "HARDSPLAT_VALIDATION is set, but the layer is not installed "
                "(Debian/Ubuntu: apt-get install vulkan-validationlayers)"
            )
        if vk.vkEnumerateInstanceVersion() < _VERSION:
            raise UserError(
                "the Vulkan loader is older than 1.2: update libvulkan1 or the Vulkan SDK"
            )
        offered = {e.extensionName for e in vk.vkEnumerateInstanceExtensionProperties(None)}
        known = ("VK_EXT_debug_utils", _PORTABILITY, *surfaces)
        extensions = [name for name in known if name in offered]
        synchronization = None
        if validation == "sync":
            extensions.append("VK_EXT_validation_features")  # the layer's own
            looks = [vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT]
            synchronization = vk.VkValidationFeaturesEXT(pEnabledValidationFeatures=looks)
        application = vk.VkApplicationInfo(
            pApplicationName="hardsplat", pEngineName="hardsplat", apiVersion=_VERSION
        )
        info = vk.VkInstanceCreateInfo(
            pNext=synchronization,
            flags=_ENUMERATE_PORTABILITY if _PORTABILITY in extensions else 0,
            pApplicationInfo=application,
            ppEnabledLayerNames=[VALIDATION_LAYER] if validation else [],
            ppEnabledExtensionNames=extensions,
        )
        try:
            self.handle = vk.vkCreateInstance(info, None)
        except vk.VkErrorIncompatibleDriver:
            raise UserError(f"{NO_DEVICE}; {drivers.explain()}") from None
        self.extensions, self._procs = frozenset(extensions), dict[str, Any]()
        self.debug_utils = "VK_EXT_debug_utils" in extensions
        self._messenger = self._listen() if validation and self.debug_utils else None

    def proc(self, name: str):
        """An instance function of an extension."""
        if name not in self._procs:
            self._procs[name] = vk.vkGetInstanceProcAddr(self.handle, name)
        return self._procs[name]

    def _listen(self):
        """The messenger that collects what the layer reports."""

        def on_message(severity, kinds, data, user):
            text = vk.ffi.string(data.pMessage).decode(errors="replace")
            if not text.startswith(_OF_THE_LOADER):
                self.messages.append(text)
            return 0

        # Raw cffi: the package keeps one Python callback a process, so the messages of every
        # instance would reach the newest.
        callback = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", on_message)
        _CALLBACKS[self.handle] = callback
        info = vk.ffi.new("VkDebugUtilsMessengerCreateInfoEXT*")
        info.sType = vk.VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT
        info.messageSeverity, info.messageType = _SEVERITIES, _MESSAGES
        info.pfnUserCallback = callback
        return self.proc("vkCreateDebugUtilsMessengerEXT")(self.handle, info[0], None)

    def destroy(self) -> None:
        """May be called again. Its devices must be closed by then.

        The instance that is destroyed last stays until another one is: a driver is unloaded with
        its last instance, and a thread that called it before, and ends later, would crash then.
        """
        if self.handle is None:
            return
        if self._messenger is not None:
            self.proc("vkDestroyDebugUtilsMessengerEXT")(self.handle, self._messenger, None)
        _CALLBACKS.pop(self.handle, None)
        before, _LAST[:] = [*_LAST], [self.handle]
        for handle in before:
            vk.vkDestroyInstance(handle, None)
        self.handle = self._messenger = None

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *error: object) -> None:
        self.destroy()

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
        p, driver = capabilities.properties(handle, "Driver")
        rank, kind = _TYPES.get(p.deviceType, (3, "other"))
        draws, computes = vk.VK_QUEUE_GRAPHICS_BIT, vk.VK_QUEUE_COMPUTE_BIT
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(handle)
        does = [f.queueFlags & (draws | computes) for f in families]
        clocks = [f.timestampValidBits for f in families]
        family = next((i for i, does_ in enumerate(does) if does_ == draws | computes), None)
        bits = 0 if family is None else clocks[family]
        alone = (i for i, does_ in enumerate(does) if does_ == computes and clocks[i] >= bits)
        texts = p.deviceName, driver.driverName, driver.driverInfo
        name, *about = (vk.ffi.string(text).decode() for text in texts)
        version = p.apiVersion >> 22 & 0x7F, p.apiVersion >> 12 & 0x3FF
        driven_by, compute = " ".join(about).strip(), next(alone, None)
        return cls(handle, name, kind, rank, version, driven_by, family, bits, compute)


def choose(devices: list[PhysicalDevice], wanted: str | None) -> PhysicalDevice:
    """By index, or by part of the name; the first (a discrete GPU where there is one) when nothing
    is asked for."""
    if not devices:
        raise UserError(f"{NO_DEVICE}; {drivers.explain()}")
    if wanted in (None, ""):
        return devices[0]
    listing = ", ".join(f"{i}: {d.name}" for i, d in enumerate(devices))
    by_variable = wanted == os.environ.get("HARDSPLAT_DEVICE")
    named = f"HARDSPLAT_DEVICE={wanted}" if by_variable else f"--device {wanted}"
    number, matching = wanted.isdigit(), [d for d in devices if wanted.lower() in d.name.lower()]
    if number:
        matching = devices[int(wanted) : int(wanted) + 1]
    if not matching:
        why = "there is no such device" if number else "no device has this in its name"
        raise UserError(f"{named}: {why}; this machine has {listing}")
    return matching[0]
