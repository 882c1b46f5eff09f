"""How fast the device copies its own memory: what a pass that only moves bytes can at best reach.

By a pass of ours: vkCmdCopyBuffer may run on a copy engine, which on an H200 is five times slower
than its shaders.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import build

COPIES = 8
BYTES = 512 << 20  # of a copy: several times any cache
_VECTORS = 4  # a thread
_GROUP_BYTES = contract.CONSTANTS["GROUP"] * _VECTORS * contract.itemsize("source")
COPY = ComputePass("copy", "probe/copy.comp", ("source",), ("copied",), {"VECTORS": _VECTORS})


def copy_bandwidth(device: Device) -> float | None:
    """Bytes per second, read and written ones together, of the fastest of a few copies of BYTES, or
    what a descriptor reaches; None without a clock on the device. Raises OutOfMemory."""
    groups = max(min(BYTES, device.max_buffer) // _GROUP_BYTES, 1)
    nbytes = groups * _GROUP_BYTES
    with ExitStack() as stack:
        buffers = allocate_all(device, {"source": nbytes, "copied": nbytes})
        for buffer in buffers.values():
            stack.callback(buffer.destroy)
            buffer.fill(0x3F800000)
        pipeline = build(device, COPY)
        recorder = Recorder(device, buffers, timed=True)
        stack.callback(recorder.destroy)
        for _ in range(COPIES):
            recorder.run(pipeline, threads=(groups * contract.CONSTANTS["GROUP"],))
        recorder.end().run_once()
        nanoseconds = np.diff(recorder.stamps())[1:]  # the first one warms up
    fastest = float(nanoseconds.min(initial=np.inf))
    return 2e9 * nbytes / fastest if 0 < fastest < np.inf else None
