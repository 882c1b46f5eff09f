"""Command buffers on their way to the GPU: allocated, submitted, waited for. What they hold is
recorder.py's. Also what they measure: when passes are done, and the fragments that draws shade."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import vulkan as vk

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.features import bits

ALL = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
_SHADER_ACCESS = bits("VK_ACCESS_{}_BIT", "SHADER_READ", "SHADER_WRITE", "UNIFORM_READ")
READ_WRITE = bits("VK_ACCESS_MEMORY_{}_BIT", "READ", "WRITE")
_OPAQUE_FD = vk.VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT
_RESET = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
_SLICE_NS = 200_000_000
_EAGER = 0.01  # seconds


def allocate(device: Device):
    """A command buffer, which `free` or the end of the device frees."""
    level, family = vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, device.physical.queue_family
    make = partial(device.create, "CommandPool", flags=_RESET, queueFamilyIndex=family)
    where = device.shared("command pool", make)
    info = vk.VkCommandBufferAllocateInfo(commandPool=where, level=level, commandBufferCount=1)
    (commands,) = vk.vkAllocateCommandBuffers(device.handle, info)
    end = lambda handle, one, _: vk.vkFreeCommandBuffers(handle, where, 1, [one])  # noqa: E731
    return device.own("CommandBuffer", commands, end)


def free(device: Device, commands) -> None:
    """Frees a command buffer, which must not be in flight."""
    device.destroy("CommandBuffer", commands)


class Fence:
    """Signalled when a submission is done."""

    def __init__(self, device: Device):
        self.device = device
        self.handle = device.create("Fence")
        self._handles = vk.ffi.new("VkFence[]", [self.handle])

    def wait(self, eager: bool = False) -> None:
        """Waits in slices: Python answers Ctrl-C only between calls. eager: polls at
        first, since a thread that is woken up is some 60 us late."""
        until = time.perf_counter() + _EAGER if eager else 0.0
        result, device = vk.VK_TIMEOUT, self.device
        status = partial(vk.lib.vkGetFenceStatus, device.handle, self._handles[0])
        while eager and status() == vk.VK_NOT_READY and time.perf_counter() < until:
            pass
        while result == vk.VK_TIMEOUT:
            result = vk.lib.vkWaitForFences(device.handle, 1, self._handles, True, _SLICE_NS)
        device.check(result)

    def done(self) -> bool:
        with suppress(vk.VkNotReady), self.device.answering():
            vk.vkGetFenceStatus(self.device.handle, self.handle)
            return True
        return False

    def reset(self) -> None:
        vk.lib.vkResetFences(self.device.handle, 1, self._handles)

    def destroy(self) -> None:
        """May be called again."""
        if self.handle is not None:
            self.device.destroy("Fence", self.handle)
            self.handle = None


class SharedSemaphore:
    """A semaphore that another API signals or waits for. Takes the capability `semaphore_fd`."""

    def __init__(self, device: Device):
        self.device = device
        export = vk.VkExportSemaphoreCreateInfo(handleTypes=_OPAQUE_FD)
        self.handle = device.create("Semaphore", pNext=export)

    def fd(self) -> int:
        """A new file descriptor. The API that imports it owns it; else it must be closed."""
        info = vk.VkSemaphoreGetFdInfoKHR(semaphore=self.handle, handleType=_OPAQUE_FD)
        return int(self.device.proc("vkGetSemaphoreFdKHR")(self.device.handle, info))

    def destroy(self) -> None:
        self.device.destroy("Semaphore", self.handle)


class Submission:
    """Recorded command buffers, which go to the queue in order as often as wanted; the same one may
    appear many times.

    signal: a semaphore that they signal when they are done. wait: one that they wait for. Must not
    outlive any of them. Its VkSubmitInfo is written once, since the package takes longer for
    that than the driver for the rest.
    """

    def __init__(self, device: Device, commands: Sequence, signal=None, wait=None):
        self.device = device
        handles = vk.ffi.new("VkCommandBuffer[]", [getattr(c, "commands", c) for c in commands])
        before = {} if wait is None else dict(pWaitSemaphores=[wait], pWaitDstStageMask=[ALL])
        after = {} if signal is None else dict(pSignalSemaphores=[signal])
        self._info = vk.VkSubmitInfo(
            commandBufferCount=len(commands), pCommandBuffers=handles, **before, **after
        )

    def submit(self, fence: Fence | None = None) -> None:
        """Raises DeviceLost, OutOfMemory."""
        info, signalled = vk.ffi.addressof(self._info), fence.handle if fence else vk.ffi.NULL
        self.device.check(vk.lib.vkQueueSubmit(self.device.queue, 1, info, signalled))


def submit(
    device: Device, commands: Sequence, fence: Fence | None = None, signal=None, wait=None
) -> None:
    """Queues recorded command buffers once, see Submission."""
    Submission(device, commands, signal, wait).submit(fence)


def begin(device: Device, commands=None, usage: int = 0):
    """A command buffer that is being recorded: a new one, or `commands` again, which must not be in
    flight."""
    commands = allocate(device) if commands is None else commands
    vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo(flags=usage))
    barrier(commands)
    return commands


@contextmanager
def once(device: Device):
    """A command buffer that is submitted and waited for when the block ends."""
    commands = begin(device, usage=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
    try:
        yield commands
        barrier(commands, ALL | vk.VK_PIPELINE_STAGE_HOST_BIT)
        vk.vkEndCommandBuffer(commands)
        complete(device, commands)
    finally:
        free(device, commands)


def complete(device: Device, *commands) -> None:
    """Submits, in order, and waits. Whatever ends the waiting early, the GPU is done with the
    commands afterwards: the caller will free them."""
    fence = device.shared("fence", partial(Fence, device))
    try:
        submit(device, commands, fence)
        fence.wait()
    except BaseException:  # an interrupt too
        with suppress(vk.VkError):
            vk.vkDeviceWaitIdle(device.handle)
        raise
    finally:
        fence.reset()


def compute_barrier(commands, commanded: bool = False) -> None:
    """What compute shaders did before it, before what they do after it. commanded: before the work
    sizes that dispatches read, too.

    Cheaper than `barrier`: on NVIDIA an H200 waits 3 us longer where work sizes are read.
    """
    stages, access = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, _SHADER_ACCESS
    if commanded:
        stages |= vk.VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT
        access |= vk.VK_ACCESS_INDIRECT_COMMAND_READ_BIT
    memory = vk.VkMemoryBarrier(srcAccessMask=vk.VK_ACCESS_SHADER_WRITE_BIT, dstAccessMask=access)
    vk.vkCmdPipelineBarrier(commands, stages, stages, 0, 1, [memory], 0, None, 0, None)


def barrier(commands, until: int = ALL) -> None:
    """All before it, before all after it. A fence alone does not show the host what was written:
    for that, `until` has the host's stage."""
    written = vk.VK_ACCESS_MEMORY_WRITE_BIT
    memory = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=READ_WRITE)
    vk.vkCmdPipelineBarrier(commands, ALL, until, 0, 1, [memory], 0, None, 0, None)


MAX_TIMESTAMPS, MAX_DRAWS = 512, 64  # 16 pairs of perturbed images in tiles take 360


class _Queries:
    """A pool of queries of one command buffer, and the names of those that it makes."""

    def __init__(self, device: Device, commands, count: int, **info):
        self.device, self.commands = device, commands
        self.names: list[str] = []
        self._pool = device.create("QueryPool", queryCount=count, **info)
        vk.vkCmdResetQueryPool(commands, self._pool, 0, count)

    def _numbers(self) -> np.ndarray:
        """(names,) uint64 of the last submission, which must be done. Raises DeviceLost."""
        out = np.zeros(len(self.names), np.uint64)
        flags, raw = (
            vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT,
            vk.ffi.from_buffer(out),
        )
        device, pool = self.device.handle, self._pool
        with self.device.answering():
            vk.vkGetQueryPoolResults(device, pool, 0, len(out), out.nbytes, raw, 8, flags)
        return out

    def destroy(self) -> None:
        self.device.destroy("QueryPool", self._pool)


class Timestamps(_Queries):
    """Moments on the device's clock."""

    def __init__(self, device: Device, commands):
        kind = vk.VK_QUERY_TYPE_TIMESTAMP
        super().__init__(device, commands, MAX_TIMESTAMPS, queryType=kind)

    def mark(self, name: str) -> None:
        """The moment when everything before is done."""
        end = vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT
        vk.vkCmdWriteTimestamp(self.commands, end, self._pool, len(self.names))
        self.names.append(name)

    def read(self) -> np.ndarray:
        """(marks,) float64 nanoseconds."""
        return self._numbers().astype(np.float64) * self.device.timestamp_ns

    def times(self) -> dict[str, float]:
        """Milliseconds from the mark before, by name; those of one name add up."""
        total: dict[str, float] = {}
        for name, ns in zip(self.names[1:], np.diff(self.read())):
            total[name] = total.get(name, 0.0) + float(ns) * 1e-6
        return total


class Invocations(_Queries):
    """Invocations of the fragment shader by draw."""

    def __init__(self, device: Device, commands):
        kind = vk.VK_QUERY_TYPE_PIPELINE_STATISTICS
        counted = vk.VK_QUERY_PIPELINE_STATISTIC_FRAGMENT_SHADER_INVOCATIONS_BIT
        super().__init__(device, commands, MAX_DRAWS, queryType=kind, pipelineStatistics=counted)

    def begin(self, name: str) -> None:
        vk.vkCmdBeginQuery(self.commands, self._pool, len(self.names), 0)
        self.names.append(name)

    def end(self) -> None:
        vk.vkCmdEndQuery(self.commands, self._pool, len(self.names) - 1)

    def read(self) -> dict[str, int]:
        """Invocations by draw, helper lanes included where the driver counts them."""
        return dict(zip(self.names, self._numbers().tolist())) if self.names else {}
