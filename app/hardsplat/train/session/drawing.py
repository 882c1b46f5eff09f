"""What draws the splats of a session: replaced by growth, and with the rasterizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import scratch
from hardsplat.gpu.commands.recorder import Recorder, Recordings
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import submit
from hardsplat.gpu.memory.allocation import step_poison
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import DepthImage, Image
from hardsplat.gpu.memory.resources import Owned, allocate_all, destroy_all
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.working import WorkingSet, most_shown
from hardsplat.step.loss import term_sums_bytes
from hardsplat.step.photos import Photos
from hardsplat.step.runner import BatchResult, PairDemand, StepRunner
from hardsplat.tables.photographs import LENSES
from hardsplat.train.features.feature import StepParts
from hardsplat.train.job.job import Job
from hardsplat.train.session.store import SplatStore
from hardsplat.train.step.resort import resort_bytes
from hardsplat.train.step.step import TrainingStep, sink_of
from hardsplat.train.strategies.strategy import allocate_refine

# Room: so many times what was seen, and so many splats more; it is made again below LEAST times.
# Where memory is short, the first that fits.
TIMES, MORE, LEAST = (1.5, 1.2, 1.0), 1024, 1.15


class VisibleShare:
    """What views show of a model, by the steps and measurements so far. share: of its splats, at
    most."""

    def __init__(self, job: Job):
        self._job, self.share, self._short = job, 0.0, 0

    def measure(self, device: Device, model: Parameters, n: int) -> None:
        """Culls the n splats of the model for every view."""
        job = self._job
        frame = frame_data(0, (0.0,) * 3, job.config.scene.near_plane)
        lens = LENSES[job.views.lens].slot
        most = most_shown(device, model, job.views.packed(), frame, GEOMETRY, lens)
        self.share = max(self.share, most / max(n, 1))

    def note(self, result: BatchResult) -> None:
        records = result.records
        shares = records["visible"] / np.maximum(records["splats"], 1)
        self.share = max(self.share, float(shares.max(initial=0.0)))

    def room(self, splats: int, capacity: int) -> int:
        """Splats to make a working set for, of a model with so many splats and that capacity."""
        return min(int(TIMES[self._short] * self.share * splats) + MORE, capacity)

    def is_short(self, room: int, splats: int, capacity: int) -> bool:
        """Whether a working set of that room is too small for a model of so many splats: steps may
        come to see more, or, where memory is short, one has."""
        least = min(LEAST, TIMES[self._short])
        return room < min(int(least * self.share * splats), capacity)

    def refuse(self) -> bool:
        """Notes that there was no memory for the last room; whether there may be for less."""
        self._short += 1
        return self._short < len(TIMES)


@dataclass
class Drawing:
    """What draws a session's splats: the rasterizer, buffers as large as the capacity, and the
    commands recorded with both. `make` makes them for the room that there is; commands whose
    buffers were replaced since, as an evaluation does too, are recorded again before their use.

    parts: of the job's features. shared: what is there whatever the number of splats, by contract
    name. pairs: what lists have room for. visible: what steps see, for the room of working sets.
    rasterizer: that draws. timed_rows: of its rows left to `auto` those that were timed, not the
    first that run.

    From the first `make` on, raster: draws the splats. resources: of every pass, by contract name.
    sizes: recorded commands that derive work sizes from the number of splats. working: what is
    drawn instead of all splats, if anything is. schedule: of now, by which `record` goes.
    """

    device: Device
    job: Job
    photos: Photos
    parts: Sequence[StepParts]
    store: SplatStore
    runner: StepRunner
    shared: Mapping[str, Buffer | Image]
    pairs: PairDemand
    visible: VisibleShare
    rasterizer: str
    timed_rows: bool = True

    def __post_init__(self) -> None:
        self._owned, self._on_all = Owned(), Recordings(self.device, {})
        self.working: WorkingSet | None = None
        self.schedule, self.made = self.job.schedule, False

    def make(self, terms: np.ndarray) -> None:
        """Makes all of it anew. terms: the contract's LossTerms. Raises UserError for what the
        device cannot run, OutOfMemory; then nothing stays allocated."""
        self.drop()
        try:
            self._allocate(terms)
            self.pairs.fit(self.raster, new=True)
            self.record()
            self.made = True
        except BaseException as error:
            self.destroy()
            full = isinstance(error, OutOfMemory) and self.job.packed
            if not (full and self.visible.refuse()):
                raise
            self.make(terms)

    def _allocate(self, terms: np.ndarray) -> None:
        device, job, store = self.device, self.job, self.store
        backend, options = BACKENDS[self.rasterizer], job.options(self.rasterizer)
        if not self.timed_rows:
            options = backend.first_runnable(device, options)
        sink = sink_of(job, self.parts)
        if job.packed:
            room = self.visible.room(store.bound, store.capacity)
            working = WorkingSet(
                device, store.parameters, room, job.config.adam.moments, sink.statistics
            )
            self.working = self._owned.add(working)
        raster = backend(device, self._drawn, *job.views.canvas, options, sink=sink)
        self.raster = self._owned.add(raster)
        self._scratch: dict[str, Buffer | Image] = {
            **allocate_refine(device, store.capacity, without=raster.resources)
        }
        self._owned.add_all(self._scratch.values())
        self.runner.update({"loss_terms": terms})
        sums = Buffer(device, term_sums_bytes(terms), "term_sums")
        self._scratch["term_sums"] = self._owned.add(sums)

    @property
    def _drawn(self) -> WorkingSet | Parameters:
        return self.working or self.store.parameters

    def has_timed_rows(self, rasterizer: str) -> bool:
        """Whether any row of that rasterizer is left to `auto` and would be timed."""
        options = self.job.options(rasterizer)
        return BACKENDS[rasterizer].first_runnable(self.device, options) != options

    def without_filter(self, others: Parameters | None = None) -> Rasterizer:
        """Draws the splats of now, or others, as other programs do, without the 2D filter; it is
        the caller's. Raises OutOfMemory."""
        job, backend = self.job, BACKENDS[self.rasterizer]
        options = backend.first_runnable(self.device, job.options(self.rasterizer))
        # which gathers them
        sink = sink_of(job, self.parts) if self.working and not others else None
        plain, splats = replace(options, antialiased=False), others or self._drawn
        return backend(self.device, splats, *job.views.canvas, plain, sink)

    @property
    def is_short(self) -> bool:
        """Whether there is to be more room for what the next steps may see."""
        if self.working is None:
            return False
        room, store = self.working.capacity, self.store
        return self.visible.is_short(room, store.bound, store.capacity)

    def _record_if_replaced(self) -> None:
        if self.raster.resources is not self._drawn_from:
            self.pairs.fit(self.raster)  # for want of memory there may be none
            self.runner.drain()
            self.record()

    def run(self, views: np.ndarray, scored: Sequence[bool]) -> None:
        """Queues a batch of steps, with lists that have room. views, scored: of each step, see
        StepRunner."""
        self.pairs.fit(self.raster)
        self._record_if_replaced()
        self.runner.run(views, self.photos.place, self.raster.pair_capacity, scored)

    def action(self, name: str) -> Recorder:
        """Commands of the strategy between steps, which are recorded when they are first due."""
        self._record_if_replaced()
        return self._actions[name]()

    def queue(self, name: str) -> None:
        submit(self.device, [self.action(name)])

    def record(self) -> None:
        """Records the commands again, after all that was queued, refinements too, which have no
        fence."""
        self.device.wait_idle()
        self._on_all.destroy()
        job, parameters = self.job, self.store.parameters
        self._drawn_from = self.raster.resources
        self.resources = {**self.shared, **self.raster.resources, **self._scratch}
        step = TrainingStep(self.device, job, self.schedule, self.raster, self.parts, self.photos)
        self.runner.record(self.resources, self._poisoned(step.record), job.strategy.scores)
        # between steps all splats are there, not those that one of them sees
        recorded = Recordings(self.device, {**self.resources, **parameters.resources})
        self._on_all, self.sizes = recorded, recorded(step.record_sizes)
        actions = step.actions(parameters.capacity)
        self._resorting = actions.pop("resort", None)
        if self._resorting and not self.working:
            actions["resort"] = self._resorting
        self._actions = {name: cache(partial(recorded, each)) for name, each in actions.items()}

    def _poisoned(self, record: Callable[..., None]) -> Callable[..., None]:
        """A step before which tests may have all scratch filled, see step_poison."""
        if (value := step_poison()) is None:
            return record

        def spoiled(recorder: Recorder, scores: bool = False) -> None:
            for name in sorted(scratch(self.resources)):
                if not isinstance(target := self.resources[name], DepthImage):  # draws clear it
                    recorder.spoil(name, target, value)
            drawn = self.working.splats if self.working else self.store.parameters
            for plane in drawn.gradient_planes():
                recorder.spoil(plane.name, plane, value)
            record(recorder, scores)

        return spoiled

    def resort(self) -> None:
        """Queues what puts splats in order. Out of core they are in order when it returns, or as
        before where there is no memory for it."""
        if "resort" in self._actions:
            self.queue("resort")
        if not (self._resorting and self.working):
            return
        self._record_if_replaced()
        device, n = self.device, self.store.capacity
        device.wait_idle()
        try:
            scratch = allocate_all(device, resort_bytes(n))
        except OutOfMemory:
            return
        all_there = Recordings(
            device, {**self.resources, **self.store.parameters.resources, **scratch}
        )
        all_there(self._resorting).run_once()
        all_there.destroy()
        destroy_all(scratch)

    def drop(self) -> None:
        """Frees it after all that was queued, refinements too, which have no fence."""
        self.device.wait_idle()
        self.destroy()

    def destroy(self) -> None:
        self._on_all.destroy()
        self._owned.destroy()
        self.working, self.made = None, False
