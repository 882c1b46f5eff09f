"""What a command buffer measures while it runs: when passes are done, and how many fragments draws
shade."""

from __future__ import annotations

import numpy as np
import vulkan as vk

from hardsplat.gpu.device.context import Device

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
