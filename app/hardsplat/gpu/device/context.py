"""The Vulkan instance and device: choice, feature chain, validation messages, limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import vulkan as vk

from hardsplat.base.errors import UserError
from hardsplat.gpu.device import capabilities, features
from hardsplat.gpu.device.instance import Instance, ValidationError, choose, validation_wanted

T = TypeVar("T")
BUILDERS = min(
    8, os.cpu_count() or 1
)  # threads that build pipelines; more of them wait for one another in Python
QUAD_CONTROL_LAYER = vk.VK_MAKE_VERSION(
    1, 3, 268
)  # older ones call SPIR-V with quad control invalid


class DeviceLost(UserError):
    """The GPU stopped answering (VK_ERROR_DEVICE_LOST)."""


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
        if missing := self.capabilities.missing(features.REQUIRED):
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
