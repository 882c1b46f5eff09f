"""What a session trains, in buffers that grow, as many as a device holds, and as arrays and
checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.contract.footprint import STATISTICS
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import Owned
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.sky import Sky
from hardsplat.raster.core.parameters import Gradients, Parameters
from hardsplat.step.photos import Photos
from hardsplat.tables import quantities
from hardsplat.tables.quantities import Of
from hardsplat.train.job.facts import fitting
from hardsplat.train.job.job import Job

# capacity: so many times the splats that it was made for, and so many more, since each growth takes
# a tenth of a second
TIMES, MORE = 1.25, 150_000
GONE = -10.0  # logit of an opacity that is not drawn
Allocate = Callable[[str, tuple[int, ...]], np.ndarray]


def fresh(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A new float32 array, with anything in it."""
    return np.empty(shape, np.float32)


def of_other_items(
    checkpoint: Checkpoint, items: Mapping[Of, int], settings: Mapping[str, Any]
) -> set[str]:
    """Names of arrays of a checkpoint that are of other photographs or cameras than `items` has,
    and rest in this run. settings: all by name.

    Raises UserError where they are trained.
    """
    found: set[str] = set()
    for q in (q for kind in quantities.ORDER[1:] for q in quantities.of(kind)):
        there = checkpoint.buffers[q.name].shape[1] if q.name in checkpoint.buffers else items[q.of]
        if there == items[q.of]:
            continue
        if there and quantities.is_chosen(q, settings):
            raise UserError(
                f"the checkpoint knows {there} {q.of}s, the scene has {items[q.of]}: "
                "train on the photographs that it was made with"
            )
        found |= {q.name, q.moments}
    return found


class SplatStore:
    """The splats of a job, and what its photographs, cameras and sky have. What reads them waits
    for all that was queued.

    drain: waits for the batches in flight. parameters: the buffers, from `open` on. bound: most
    splats there can be, known without waiting.
    """

    parameters: Parameters

    def __init__(self, device: Device, job: Job, drain: Callable[[], None]):
        self._device, self._job, self._drain = device, job, drain
        self.bound, self._owned, self._averages_fit = 0, Owned(), True

    def open(self, state: Checkpoint, capacity: int, others: set[str], averaged: bool) -> None:
        """Has the values of a checkpoint and room for `capacity` splats. others: arrays that are
        left out. averaged: with its averages, if it has any. Raises OutOfMemory."""
        self.destroy()
        job, averages = self._job, quantities.averages()
        gradients: Gradients = "others" if job.packed else "written"
        p = self.parameters = self._owned.add(
            Parameters(
                self._device,
                capacity,
                job.config.model.sh_degree,
                job.config.adam.moments,
                "none" if job.config.gradient.estimates else gradients,
                job.items,
                job.strategy.statistics,
                out_of_core=job.out_of_core,
            )
        )
        p.forget(moments=state.fresh)
        rest = {*others, *STATISTICS, *averages} - {*job.strategy.statistics}
        if averaged and averages[0] in state.buffers and self.keep_averages(state.splats):
            rest -= {*averages}
        if state.fresh:
            rest |= {name for kind in quantities.ORDER for name in quantities.moments(kind)}
        for name, values in state.buffers.items():
            if name not in rest:
                p.write(name, values)
        self.set_count(state.splats)

    def keep_averages(self, n: int) -> bool:
        """Whether averages of the n splats are kept from now on, if not before. Without memory for
        them a note says so, and the splats end as the last step leaves them."""
        if self._averages_fit and not self.parameters.averaged:
            try:
                self.parameters.begin_averages(n)
            except OutOfMemory as error:
                self._averages_fit = False
                tqdm.write(f"note: no averages over the last steps: {error}")
        return self._averages_fit

    @property
    def capacity(self) -> int:
        """Splats that there is room for."""
        return self.parameters.capacity

    def set_count(self, n: int) -> None:
        self.parameters.set_count(n)
        self.bound = n

    def count(self) -> int:
        """Splats alive."""
        self._drain()
        return int(self.parameters.counts["splats"])

    def destroy(self) -> None:
        self._owned.destroy()

    # -- arrays ------------------------------------------------------------------------------------

    def snapshot(self, step: int, allocate: Allocate = fresh) -> Checkpoint:
        """Everything that a resume needs. step: that was reached. allocate: gives the arrays."""
        n = self.count()
        read, items = self.parameters.read, self.parameters.items
        arrays = {x: read(x, items(x, n), allocate(x, self._shape(x, n))) for x in self._kept()}
        return Checkpoint(step, self._job.config.model.sh_degree, arrays)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of a snapshot with as many splats as the capacity."""
        n = self.capacity
        return {name: self._shape(name, n) for name in self._kept()}

    def _shape(self, name: str, n: int) -> tuple[int, ...]:
        return self.parameters.shape(name, self.parameters.items(name, n))

    def _kept(self) -> list[str]:
        splats = quantities.of("splat")
        others = [q for kind in quantities.ORDER[1:] for q in quantities.of(kind)]
        names = [
            *(q.name for q in splats),
            *(q.moments for q in splats),
            *(name for q in others for name in (q.name, q.moments)),
        ]
        averages = [q.average for q in splats] if self.parameters.averaged else ()
        return [*names, *averages, *self._job.strategy.statistics]

    def values(self) -> dict[str, np.ndarray]:
        """The trained values of splats and sky, (planes, items, width) by name."""
        return self.parameters.values(self.count())

    def some(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The trained values of splats of these names."""
        n = self.count()
        return {name: self.parameters.read(name, n) for name in names}

    def fade(self, which: np.ndarray) -> None:
        """Makes splats transparent, for good: what is not drawn has no gradient. which: (N,)
        bool."""
        for name, value in (("logit_opacities", GONE), ("adam_logit_opacities", 0.0)):
            if which.any():
                values = self.parameters.read(name, len(which))
                values[..., which, :] = value
                self.parameters.write(name, values)

    def trained(self, name: str) -> np.ndarray:
        """(planes, items, width) of a quantity of photographs, cameras or texels."""
        self._drain()
        return self.parameters.read(name, self.parameters.items(name, 0))

    def gaussians(self) -> Gaussians:
        self._drain()
        return self.parameters.download()

    def finish(self) -> None:
        """Splats become their averages, and the sky is filled, see Session.finish."""
        if self.parameters.averaged:
            self.parameters.take_averages(self.count())
        if self.parameters.texels:
            self.parameters.write("sky", Sky(self.trained("sky")[0]).filled().texels[None])


def roomy(n: int) -> int:
    """Capacity made for n splats, where there is memory."""
    return int(n * TIMES) + MORE


class SplatLimit:
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
        return limit, f"{by} is {limit:,}"

    def check(self, n: int, rasterizer: str) -> None:
        """Raises OutOfMemory, or UserError for --cap-max, when this many splats are too many from
        the start."""
        if self._most and n > self._most:
            more = f"more than --cap-max {self._most:,}"
            raise UserError(f"the run begins with {n:,} splats, {more}: raise it")
        limit, why = self._limit(rasterizer)
        if n > limit:
            degree = f"--sh-degree {self._job.config.model.sh_degree}"
            raise OutOfMemory(f"{n:,} splats do not fit: {why} with {degree}", "splats")

    def first_capacity(self, n: int, rasterizer: str) -> int:
        """Capacity to begin with n splats. Lists are the largest while splats are few and large, so
        what growth is sure to reach is not allocated before the first growth."""
        grows = bool(self._job.strategy.actions)
        return min(roomy(n), self._limit(rasterizer)[0]) if grows else n

    def capacity_for(self, wanted: int, before: int, rasterizer: str) -> int:
        """Capacity for `wanted` splats, or as many as fit; `before`, that of now, where there is to
        be no other."""
        limit, why = self._limit(rasterizer)
        reached = self._job.schedule.strategy.reached()
        capacity = min(reached if wanted <= reached else roomy(wanted), limit)
        if capacity < wanted:
            self.stopped = f"growth stops at {max(capacity, before):,} splats: {why}"
        refused = self._refused and capacity >= self._refused
        if refused and not self.stopped:
            self.stopped = f"growth stops at {before:,} splats: {self._why}"
        return before if capacity <= before or refused else capacity

    def close(self, why: str) -> None:
        """Leaves the capacity as it is from here on."""
        self._refused, self._why = 1, why

    def refuse(self, capacity: int, before: int, error: OutOfMemory) -> None:
        """Notes that there was no memory for that capacity. It is not requested again: failing to
        allocate is slow."""
        self._refused = capacity
        self.stopped = f"growth stops at {before:,} splats: {error}"
