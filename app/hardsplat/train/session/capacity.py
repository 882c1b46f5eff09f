"""How many splats buffers are made for, and how many a device holds."""

from __future__ import annotations

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device
from hardsplat.step.photos import Photos
from hardsplat.train.job.job import Job
from hardsplat.train.job.memory import fitting

# capacity: so many times the splats that it was made for, and so many more, since each growth takes
# a tenth of a second
TIMES, MORE = 1.25, 150_000


def roomy(n: int) -> int:
    """Capacity made for n splats, where there is memory."""
    return int(n * TIMES) + MORE


class SplatCapacity:
    """How many splats a session makes buffers for. stopped: why there will be no more, once that is
    so."""

    def __init__(self, device: Device, job: Job, photos: Photos):
        self._device, self._job, self._photos = device, job, photos
        self._most = job.config.densify.cap_max
        self.stopped = ""
        self._refused, self._why = 0, ""  # capacity that did not fit

    def _limit(self, rasterizer: str) -> tuple[int, str]:
        """Most splats that the device holds, or --cap-max if that is fewer; as a number and in
        words."""
        limit = fitting(self._device, self._job.config, rasterizer, self._photos.device_bytes)
        limit = min(limit, self._most or limit)
        by = "--cap-max" if limit == self._most else f"the most that {self._device.name} holds"
        return limit, f"{by} is {limit}"

    def check(self, n: int, rasterizer: str) -> None:
        """Raises OutOfMemory, or UserError for --cap-max, when this many splats are too many from
        the start."""
        if self._most and n > self._most:
            start, more = self._job.config.start, f"more than --cap-max {self._most}"
            if start.init is None and start.init_type == "random":
                lower = "lower --init-num-pts or raise --cap-max"
                raise UserError(f"--init-type random begins with {n} splats, {more}: {lower}")
            raise UserError(f"the run begins with {n} splats, {more}: raise it")
        limit, why = self._limit(rasterizer)
        if n > limit:
            degree = f"--sh-degree {self._job.config.model.sh_degree}"
            raise OutOfMemory(f"{n} splats do not fit: {why} with {degree}", "splats")

    def first(self, n: int, rasterizer: str) -> int:
        """Capacity to begin with n splats. Lists are the largest while splats are few and large, so
        what growth is sure to reach is not allocated before the first growth."""
        grows = bool(self._job.strategy.recordings)
        return min(roomy(n), self._limit(rasterizer)[0]) if grows else n

    def more(self, wanted: int, before: int, rasterizer: str) -> int:
        """Capacity for `wanted` splats, or as many as fit; `before`, that of now, where there is to
        be no other."""
        limit, why = self._limit(rasterizer)
        reached = self._job.schedule.strategy.reached()
        capacity = min(reached if wanted <= reached else roomy(wanted), limit)
        if capacity < wanted:
            self.stopped = f"growth stops at {max(capacity, before)} splats: {why}"
        refused = self._refused and capacity >= self._refused
        if refused and not self.stopped:
            self.stopped = f"growth stops at {before} splats: {self._why}"
        return before if capacity <= before or refused else capacity

    def close(self, why: str) -> None:
        """Leaves the capacity as it is from here on."""
        self._refused, self._why = 1, why

    def refuse(self, capacity: int, before: int, error: OutOfMemory) -> None:
        """Notes that there was no memory for that capacity. It is not requested again: failing to
        allocate is slow."""
        self._refused = capacity
        self.stopped = f"growth stops at {before} splats: {error}"
