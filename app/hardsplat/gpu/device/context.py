"""The Vulkan instance and device: choice, feature chain, validation messages, limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hardsplat.base.errors import UserError

try:
    import vulkan as vk
except OSError as error:  # the loader itself is absent
    raise UserError(
        "no Vulkan loader on this machine: install libvulkan1 (Debian/Ubuntu), the GPU "
        "vendor's driver, or the Vulkan SDK"
    ) from error

from hardsplat.gpu.device import capabilities, drivers

T = TypeVar("T")
_TYPES = {
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: (0, "discrete GPU"),
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: (1, "integrated GPU"),
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: (2, "virtual GPU"),
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU: (4, "CPU"),
}
VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
# an older loader asking a newer layer about functions that hardsplat never calls
_OF_THE_LOADER = "vkGetDeviceProcAddr(): "
BUILDERS = min(
    8, os.cpu_count() or 1
)  # threads that build pipelines; more of them wait for one another in Python
QUAD_CONTROL_LAYER = vk.VK_MAKE_VERSION(
    1, 3, 268
)  # older ones call SPIR-V with quad control invalid
NO_DEVICE = (
    "no Vulkan device: install a GPU driver with Vulkan 1.2, or Mesa's software renderer "
    "(Debian/Ubuntu: apt-get install mesa-vulkan-drivers)"
)


# of all instances, for the life of the process: a VkInstance outlives its Python object
_CALLBACKS: list = []


class DeviceLost(UserError):
    """The GPU stopped answering (VK_ERROR_DEVICE_LOST)."""


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


class Device:
    """A logical device with one queue for everything, and the limits that the rest respects.

    wanted: index or name, default the environment's HARDSPLAT_DEVICE. validation: default the
    environment's HARDSPLAT_VALIDATION. surfaces: instance extensions for a window
    (app/hardsplat/gpu/surface.py); without any, no extension of windows is enabled. draws: whether
    the queue must draw; else it is one that only computes, where there is such a one, and the
    attribute `draws` says so.
    """

    def __init__(
        self,
        wanted: str | int | None = None,
        validation: str | None = None,
        surfaces: Sequence[str] = (),
        draws: bool = True,
    ):
        self.instance = Instance(
            validation_wanted() if validation is None else validation, surfaces
        )
        wanted = os.environ.get("HARDSPLAT_DEVICE") if wanted is None else str(wanted)
        self.physical = choose(self.instance.physical_devices(), wanted)
        self.draws = draws or self.physical.compute_family is None
        if not self.draws:
            self.physical = replace(self.physical, queue_family=self.physical.compute_family)
        self.name = self.physical.name
        self.capabilities = capabilities.query(self.physical.handle)
        if self.instance.validated_by and self.instance.validated_by < QUAD_CONTROL_LAYER:
            for name in self.capabilities.names & {"quad_control", "maximal_reconvergence"}:
                self.capabilities.withdraw(
                    name,
                    "a validation layer of 1.3.268 or newer, the first that knows the extension",
                )
        if "VK_KHR_surface" not in self.instance.extensions:
            self.capabilities.withdraw("swapchain", "a window")
        if missing := self.capabilities.missing(capabilities.REQUIRED):
            raise UserError(
                f"{self.name} cannot run hardsplat: it lacks {', '.join(missing)}; update "
                "its driver or choose another --device (see hardsplat doctor)"
            )
        chain, extensions, keep = capabilities.enable(self.capabilities)
        queue = vk.VkDeviceQueueCreateInfo(
            queueFamilyIndex=self.physical.queue_family, pQueuePriorities=[1.0]
        )
        info = vk.VkDeviceCreateInfo(
            pNext=chain, pQueueCreateInfos=[queue], ppEnabledExtensionNames=extensions
        )
        try:
            self.handle = vk.vkCreateDevice(self.physical.handle, info, None)
        except vk.VkError as error:
            raise UserError(
                f"{self.name} cannot be opened ({type(error).__name__}): reinstall its "
                "driver or choose another --device"
            ) from None
        del keep
        self.queue = vk.vkGetDeviceQueue(self.handle, self.physical.queue_family, 0)
        self.subgroup_size = capabilities.subgroup_properties(self.physical.handle).subgroupSize
        self.subgroup_sizes = capabilities.subgroup_sizes(
            self.physical.handle, self.capabilities
        )  # that a compute pass may ask for
        self._read_limits()
        self._procs: dict[str, Any] = {}
        self._at_close: list[Callable[[], None]] = []
        self._shared: dict[str, Any] = {}
        self.pipelines: dict[
            tuple, Future
            # built passes, and those that are being built, see
            # app/hardsplat/gpu/passes/pipelines.py
        ] = {}
        self.builders, self.building = ThreadPoolExecutor(BUILDERS, "builder"), threading.Lock()
        self.build_seconds = 0.0  # that the user waited for them

    def _read_limits(self) -> None:
        struct, stype = (
            "VkPhysicalDeviceMaintenance3Properties",
            vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
        )
        core, maintenance = capabilities.properties(self.physical.handle, struct, stype)
        limits = core.limits
        self.max_buffer = min(limits.maxStorageBufferRange, maintenance.maxMemoryAllocationSize)
        self.max_allocation = maintenance.maxMemoryAllocationSize
        self.max_image = min(
            limits.maxImageDimension2D,
            limits.maxFramebufferWidth,
            limits.maxFramebufferHeight,
            *limits.maxViewportDimensions,
        )
        self.timestamp_ns = limits.timestampPeriod if self.physical.timestamp_bits else 0.0
        self.memory = vk.vkGetPhysicalDeviceMemoryProperties(self.physical.handle)
        heaps = [self.memory.memoryHeaps[i] for i in range(self.memory.memoryHeapCount)]
        self.memory_bytes = max(
            h.size for h in heaps if h.flags & vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
        )

    def proc(self, name: str):
        """A device function of an extension."""
        if name not in self._procs:
            self._procs[name] = vk.vkGetDeviceProcAddr(self.handle, name)
        return self._procs[name]

    def label(self, kind: int, handle, name: str) -> None:
        """Debug name of an object, shown by validation messages and GPU debuggers."""
        if self.instance.debug_utils:
            number = int(vk.ffi.cast("uintptr_t", handle))
            info = vk.VkDebugUtilsObjectNameInfoEXT(
                objectType=kind, objectHandle=number, pObjectName=name
            )
            set_name = vk.vkGetInstanceProcAddr(
                self.instance.handle, "vkSetDebugUtilsObjectNameEXT"
            )
            set_name(self.handle, info)

    def check_validation(self) -> None:
        if self.instance.messages:
            messages, self.instance.messages = self.instance.messages, []
            more = f"\n... and {len(messages) - 3} more" if len(messages) > 3 else ""
            raise ValidationError("\n".join(messages[:3]) + more)

    def at_close(self, free: Callable[[], None]) -> None:
        """Has close() call this, last come first served."""
        self._at_close.append(free)

    def shared(
        self, name: str, make: Callable[[], T], free: Callable[[T], None] | None = None
    ) -> T:
        """The one `name` of this device: made at the first call, freed when the device closes."""
        if name not in self._shared:
            made = self._shared[name] = make()
            if free:
                self.at_close(lambda: free(made))
        return self._shared[name]

    def close(self) -> None:
        """Frees what the device itself holds, and the device. Buffers, images and recorders must be
        destroyed by then. May be called again."""
        if self.handle is None:
            return
        self.builders.shutdown(cancel_futures=True)
        with suppress(vk.VkErrorDeviceLost):
            vk.vkDeviceWaitIdle(self.handle)
        for free in reversed(self._at_close):
            free()
        self.pipelines.clear()
        self._shared.clear()
        vk.vkDestroyDevice(self.handle, None)
        self.handle = None
        self.instance.destroy()
        self.check_validation()

    def wait_idle(self) -> None:
        try:
            vk.vkDeviceWaitIdle(self.handle)
        except vk.VkErrorDeviceLost:
            raise DeviceLost(f"{self.name} stopped answering") from None
        self.check_validation()
