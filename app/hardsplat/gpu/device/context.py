"""The Vulkan instance and device: choice, feature chain, validation messages, limits."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import vulkan as vk

from hardsplat.base.errors import OutOfMemory, UserError, undone
from hardsplat.base.parallel import THREADS
from hardsplat.gpu.device import capabilities, features
from hardsplat.gpu.device.instance import Instance, ValidationError, choose, validation_wanted
from hardsplat.gpu.device.usage import MemoryBudget, Objects, Usage, budget_of, memory_limit

T = TypeVar("T")
# older layers call SPIR-V with quad control invalid
QUAD_CONTROL_LAYER = vk.VK_MAKE_VERSION(1, 3, 268)
_OUT_OF_MEMORY = (vk.VK_ERROR_OUT_OF_DEVICE_MEMORY, vk.VK_ERROR_OUT_OF_HOST_MEMORY)


# Devices that are open, and those that were dropped open and wait for the next one to be opened.
_OPEN: weakref.WeakSet[Device] = weakref.WeakSet()
_DROPPED: deque[Device] = deque()


def opened() -> list[Device]:
    """The devices of this process that are not closed."""
    return list(_OPEN)


def close_dropped() -> None:
    """Closes the devices that were dropped under validation."""
    while _DROPPED:
        _DROPPED.popleft().close()


@atexit.register
def _leave() -> None:
    for device in opened():
        device._leave()


class Destroyable(Protocol):
    def destroy(self) -> None: ...


class DeviceLost(UserError):
    """The GPU stopped answering (VK_ERROR_DEVICE_LOST)."""


class Device:
    """A logical device with one queue for everything, and the limits that the rest respects.

    wanted: index or name, default the environment's HARDSPLAT_DEVICE. validation: default the
    environment's HARDSPLAT_VALIDATION. surfaces: instance extensions for a window
    (app/hardsplat/gpu/surface.py); without any, no extension of windows is enabled. draws: whether
    the queue must draw; else it is one that only computes, where there is such a one, and the
    attribute `draws` is False.

    A device that is dropped without close() is closed when it is collected. Under validation that
    waits until the next device is opened: the layers do not stand a thread that closes a device
    while another one records (docs/results/environment.md).
    """

    handle: Any = None

    def __init__(
        self,
        wanted: str | int | None = None,
        validation: str | None = None,
        surfaces: Sequence[str] = (),
        draws: bool = True,
    ):
        close_dropped()
        self.memory_limit = memory_limit()
        validation = validation_wanted() if validation is None else validation
        self.instance = Instance(validation, surfaces)
        with undone(self.instance.destroy):
            self._begin(wanted, draws)
        _OPEN.add(self)

    def _begin(self, wanted: str | int | None, draws: bool) -> None:
        """Chooses the physical device and opens it. Raises UserError."""
        wanted = os.environ.get("HARDSPLAT_DEVICE") if wanted is None else str(wanted)
        self.physical = choose(self.instance.physical_devices(), wanted)
        self.draws = draws or self.physical.compute_family is None
        if not self.draws:
            self.physical = replace(self.physical, queue_family=self.physical.compute_family)
        self.name = self.physical.name
        self.capabilities = self._capabilities()
        physical = self.physical.handle
        self.subgroup_size = capabilities.properties(physical, "Subgroup")[1].subgroupSize
        # that a compute pass may request
        self.subgroup_sizes = capabilities.subgroup_sizes(physical, self.capabilities)
        self._read_limits()
        self.usage = Usage()
        self.killed: dict[str, str] = {}  # variants, and what is lacked, see hardsplat.gpu.crashes
        self._procs: dict[str, Any] = {}
        self.objects = Objects()
        self._at_close: list[Callable[[], None]] = []
        self._shared: dict[str, Any] = {}
        self._buried: deque[Destroyable] = deque()
        # passes that are built or being built, see app/hardsplat/gpu/passes/pipelines.py
        self.pipelines: dict[tuple, Future] = {}
        self.builders, self.building = ThreadPoolExecutor(THREADS, "builder"), threading.Lock()
        self.build_seconds = 0.0  # that the user waited for them
        self.handle = self._open()  # the last: only what is whole is ever closed
        self.queue = vk.vkGetDeviceQueue(self.handle, self.physical.queue_family, 0)

    def _capabilities(self) -> capabilities.Capabilities:
        """What can be used here. Raises UserError where a required one is missing."""
        found = capabilities.query(self.physical.handle)
        if self.instance.validated_by and self.instance.validated_by < QUAD_CONTROL_LAYER:
            why = "a validation layer of 1.3.268 or newer, the first that knows the extension"
            for name in found.names & {"quad_control", "maximal_reconvergence"}:
                found.withdraw(name, why)
        if "VK_KHR_surface" not in self.instance.extensions:
            found.withdraw("swapchain", "a window")
        if missing := found.missing(features.REQUIRED):
            raise UserError(
                f"{self.name} cannot run hardsplat: it lacks {', '.join(missing)}; update "
                "its driver or choose another --device (see hardsplat doctor)"
            )
        return found

    def _open(self):
        chain, extensions = capabilities.enable(self.capabilities)
        family = self.physical.queue_family
        queue = [vk.VkDeviceQueueCreateInfo(queueFamilyIndex=family, pQueuePriorities=[1.0])]
        info = vk.VkDeviceCreateInfo(
            pNext=chain.head, pQueueCreateInfos=queue, ppEnabledExtensionNames=extensions
        )
        try:
            return vk.vkCreateDevice(self.physical.handle, info, None)
        except vk.VkError as error:
            why = f"({type(error).__name__}): reinstall its driver or choose another --device"
            raise UserError(f"{self.name} cannot be opened {why}") from None

    def _read_limits(self) -> None:
        core, maintenance = capabilities.properties(self.physical.handle, "Maintenance3")
        limits = core.limits
        self.max_allocation = maintenance.maxMemoryAllocationSize
        self.max_buffer = min(limits.maxStorageBufferRange, self.max_allocation)
        drawn = min(limits.maxFramebufferWidth, limits.maxFramebufferHeight)
        self.max_image = min(limits.maxImageDimension2D, drawn, *limits.maxViewportDimensions)
        self.timestamp_ns = limits.timestampPeriod if self.physical.timestamp_bits else 0.0
        self.memory = vk.vkGetPhysicalDeviceMemoryProperties(self.physical.handle)
        heaps = [self.memory.memoryHeaps[i] for i in range(self.memory.memoryHeapCount)]
        local = vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
        sizes = [(heap.size, i) for i, heap in enumerate(heaps) if heap.flags & local]
        largest, self._heap = max(sizes)
        self.memory_bytes = min(largest, self.memory_limit or largest)

    def memory_budget(self) -> MemoryBudget | None:
        """What the driver reports now of the heap with `memory_bytes`; None where it cannot, unless
        HARDSPLAT_MEMORY limits what there is."""
        budget, limit = None, self.memory_limit
        if "memory_budget" in self.capabilities:
            budget = budget_of(self.physical.handle, self._heap)
        if not limit:
            return budget
        if budget:
            return MemoryBudget(budget.used, min(limit, budget.most))
        return MemoryBudget(self.usage.on_device, limit)

    def memory_peak(self) -> dict[str, int | None]:
        """Bytes on the device at their peak since `usage.restart`: `allocated` by us, and `driver`,
        which adds what the driver keeps for itself, asked now and after large allocations that
        made a new peak; None where it does not count. host: memory of the host that the device
        reaches, now."""
        if budget := self.memory_budget():
            self.usage.driver = max(self.usage.driver, budget.used)
        host, driver = self.usage.by_kind["host"], self.usage.driver or None
        return {"allocated": self.usage.peak, "driver": driver, "host": host}

    def create(self, kind: str, **fields) -> Any:
        """A Vulkan object: what vkCreate`kind` makes of a Vk`kind`CreateInfo with these fields."""
        info = getattr(vk, f"Vk{kind}CreateInfo")(**fields)
        return self.own(kind, getattr(vk, f"vkCreate{kind}")(self.handle, info, None))

    def own(self, kind: str, handle, free: Callable[..., Any] | None = None) -> Any:
        """The handle of an object that was made otherwise and is the device's from here on. free:
        what frees it, given VkDevice, handle and None; vkDestroy`kind` by default."""
        free = free or getattr(vk, f"vkDestroy{kind}")
        self.objects.add(kind, handle, partial(free, self.handle, handle, None))
        return handle

    def destroy(self, kind: str, handle) -> None:
        """Destroys an object that is the device's; those of a closed device went with it."""
        if self.handle is not None:
            self.objects.destroy(kind, handle)

    def bury(self, part: Destroyable) -> None:
        """Takes what nobody has any more and the device is done with. It is destroyed by the thread
        that next makes a buffer or an image here, or with the device."""
        self._buried.append(part)

    def free_buried(self) -> None:
        while self._buried:
            self._buried.popleft().destroy()

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
            self.instance.proc("vkSetDebugUtilsObjectNameEXT")(self.handle, info)

    def check_validation(self) -> None:
        if self.instance.messages:
            messages, self.instance.messages = self.instance.messages, []
            more = f"\n... and {len(messages) - 3} more" if len(messages) > 3 else ""
            raise ValidationError("\n".join(messages[:3]) + more)

    def check(self, result: int) -> None:
        """Raises DeviceLost, OutOfMemory or the package's exception for a VkResult that is no
        success, ValidationError for what the layers report."""
        if result == vk.VK_ERROR_DEVICE_LOST:
            raise DeviceLost(f"{self.name} stopped answering")
        if result in _OUT_OF_MEMORY:
            raise OutOfMemory(f"{self.name} ran out of memory while running")
        if result != vk.VK_SUCCESS:
            raise vk.exception_codes[result]
        self.check_validation()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Raises DeviceLost for the package's exception of that meaning."""
        try:
            yield
        except vk.VkErrorDeviceLost:
            raise DeviceLost(f"{self.name} stopped answering") from None

    def at_close(self, call: Callable[[], None]) -> None:
        """Has this called before the device closes, or the process ends with it open."""
        self._at_close.append(call)

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """The one `name` of this device: made at the first call, it goes when the device closes."""
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    def close(self) -> None:
        """Frees the device and all that is left on it. May be called again."""
        if self.handle is not None:
            self.builders.shutdown(cancel_futures=True)
            self._close()

    def _close(self) -> None:
        with suppress(vk.VkErrorDeviceLost):
            vk.vkDeviceWaitIdle(self.handle)
        self._leave()
        self._buried.clear()
        self.pipelines.clear()
        self._shared.clear()
        self.objects.destroy_all()
        vk.vkDestroyDevice(self.handle, None)
        self.handle = None
        self.instance.destroy()
        _OPEN.discard(self)
        self.check_validation()

    def _leave(self) -> None:
        while self._at_close:
            self._at_close.pop()()

    def drop(self) -> None:
        """Closes what nobody has any more, from whichever thread found that out."""
        if self.handle is None:
            return
        if self.instance.validated_by:
            _DROPPED.append(self)
            return
        self.builders.shutdown(wait=False)  # one of them may be this thread
        self._close()

    def __del__(self) -> None:
        # The process frees what is open when it ends.
        if not sys.is_finalizing():
            self.drop()

    def wait_idle(self) -> None:
        with self.answering():
            vk.vkDeviceWaitIdle(self.handle)
        self.check_validation()

    def settle(self) -> None:
        """Waits before everything is destroyed. On a lost device nothing is under way."""
        with suppress(DeviceLost):
            self.wait_idle()
