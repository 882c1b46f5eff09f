"""How fast the device copies its own memory: what a pass that only moves bytes can at best reach."""

from __future__ import annotations

import numpy as np
import vulkan as vk

from app.gpu.context import Device
from app.gpu.memory import allocate_all
from app.gpu.recorder import Recorder

COPIES = 8


def copy_bandwidth(device: Device, nbytes: int = 256 << 20) -> float | None:
    """Bytes per second, read and written ones together, of the fastest of a few copies of `nbytes`; None without a clock on the device.

    nbytes: several times any cache. Raises OutOfMemory.
    """
    nbytes = min(nbytes, device.max_buffer) // 4 * 4
    buffers = allocate_all(device, {"from": nbytes, "to": nbytes})
    for buffer in buffers.values():
        buffer.fill(0x3F800000)
    recorder = Recorder(device, buffers, timed=True)
    for _ in range(COPIES):
        recorder.order({"from"}, {"to"})
        vk.vkCmdCopyBuffer(recorder.commands, buffers["from"].handle, buffers["to"].handle, 1, [vk.VkBufferCopy(srcOffset=0, dstOffset=0, size=nbytes)])
        recorder.mark("copy")
    recorder.end().run_once()
    nanoseconds = np.diff(recorder.stamps())[1:]  # the first one warms up
    for part in (recorder, *buffers.values()):
        part.destroy()
    return 2e9 * nbytes / float(nanoseconds.min()) if nanoseconds.size and nanoseconds.min() > 0 else None
