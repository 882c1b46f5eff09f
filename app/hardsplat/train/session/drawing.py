"""What a training draws with: the rasterizer, buffers as large as its capacity, and the commands
recorded with both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from hardsplat.gpu.memory.owned import Owned
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.working_set import WorkingSet
from hardsplat.step.loss import term_sums_bytes
from hardsplat.step.photos import Photos
from hardsplat.step.runner import PairDemand, StepRunner
from hardsplat.train.job.job import Job
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.step.capture import PhotographPasses
from hardsplat.train.step.resort import resort_bytes
from hardsplat.train.step.step import Step
from hardsplat.train.strategies.refine import allocate_refine


def has_timed_rows(device: Device, job: Job, rasterizer: str) -> bool:
    """Whether any row of the rasterizer is left to `auto` and would be timed."""
    options = job.options(rasterizer)
    return BACKENDS[rasterizer].first_runnable(device, options) != options


@dataclass(frozen=True)
class StepInputs:
    """What the commands of a session's steps follow from, besides its parameters.

    terms: the contract's LossTerms. timed_rows: see Session.switch_rasterizer. shown: splats that a
    step sees at most, where it draws these alone.
    """

    device: Device
    job: Job
    schedule: Schedule
    rasterizer: str
    capture: PhotographPasses
    photos: Photos
    terms: np.ndarray
    timed_rows: bool
    shown: int = 0


class Drawing:
    """The rasterizer of a session's parameters, and what more room for splats or another rasterizer
    replaces with it.

    raster, resources: of every pass, by contract name. sizes: recorded commands that derive work
    sizes from the number of splats. actions: those of the strategy, by name; each is recorded when
    it is first due. working: what is drawn instead of all splats, if anything is. Raises UserError
    for what the device cannot run, OutOfMemory; then nothing stays allocated.
    """

    raster: Rasterizer
    working: WorkingSet | None = None

    def __init__(
        self,
        inputs: StepInputs,
        parameters: Parameters,
        shared: dict[str, Buffer | Image],
        runner: StepRunner,
        pairs: PairDemand,
    ):
        self._parameters, self._shared, self._runner = parameters, shared, runner
        self._device, self._parts = inputs.device, Owned()
        self._on_all = Recordings(inputs.device, {})
        try:
            self._allocate(inputs)
            pairs.fit(self.raster, new=True)
            self.record(inputs)
        except BaseException:
            self.destroy()
            raise

    def _allocate(self, inputs: StepInputs) -> None:
        device, job, parameters = inputs.device, inputs.job, self._parameters
        backend, options = BACKENDS[inputs.rasterizer], job.options(inputs.rasterizer)
        if not inputs.timed_rows:
            options = backend.first_runnable(device, options)
        sink = job.sink(inputs.capture.depths is not None)
        if job.packed:
            how = (inputs.shown, job.moments, sink.follows)
            self.working = self._parts.add(WorkingSet(device, parameters, *how))
        drawn = self.working or parameters
        raster = backend.rasterizer(device, drawn, *job.views.canvas, options, sink=sink)
        self.raster = self._parts.add(raster)
        scratch: dict[str, Buffer | Image] = {**allocate_refine(device, parameters.capacity)}
        self._scratch = scratch
        self._parts.add_all(scratch.values())
        self._runner.update({"loss_terms": inputs.terms})
        sums = Buffer(device, term_sums_bytes(inputs.terms), "term_sums")
        scratch["term_sums"] = self._parts.add(sums)

    @property
    def outdated(self) -> bool:
        """Whether the rasterizer has other buffers than those that the commands were recorded
        with."""
        return self.raster.resources is not self._drawn_from

    def record(self, inputs: StepInputs) -> None:
        """Records the commands again."""
        self._on_all.destroy()
        self._drawn_from = self.raster.resources
        own = {**self._runner.buffers, **self._shared, **self._scratch}
        self.resources = {**own, **self.raster.resources}
        job = inputs.job, inputs.schedule
        step = Step(inputs.device, *job, self.raster, inputs.capture, inputs.photos)
        self._runner.record(self.resources, self._poisoned(step.record), inputs.job.strategy.scores)
        # between steps all splats are there, not those that one of them sees
        self._on_all = recorded = Recordings(
            inputs.device, {**self.resources, **self._parameters.all}
        )
        self.sizes = recorded(step.record_sizes)
        actions = step.actions(self._parameters.capacity)
        self._resorting = actions.pop("resort", None)
        if self._resorting and not self.working:
            actions["resort"] = self._resorting
        self.actions = {name: cache(partial(recorded, record)) for name, record in actions.items()}

    def _poisoned(self, record: Callable[..., None]) -> Callable[..., None]:
        """A step before which tests may have all scratch filled, see step_poison."""
        if (value := step_poison()) is None:
            return record

        def spoiled(recorder: Recorder, **how: bool) -> None:
            for name in sorted(scratch(self.resources)):
                if not isinstance(target := self.resources[name], DepthImage):  # draws clear it
                    recorder.spoil(name, target, value)
            drawn = self.working.splats if self.working else self._parameters
            for plane in drawn.gradient_planes():
                recorder.spoil(plane.name, plane, value)
            record(recorder, **how)

        return spoiled

    def resort(self) -> None:
        """Queues what puts splats in order. Out of core they are in order when it returns, or as
        before where there is no memory for it."""
        if "resort" in self.actions:
            submit(self._device, [self.actions["resort"]()])
        if not (self._resorting and self.working):
            return
        device, n = self._device, self._parameters.capacity
        device.wait_idle()
        try:
            scratch = allocate_all(device, resort_bytes(n))
        except OutOfMemory:
            return
        all_there = Recordings(device, {**self.resources, **self._parameters.all, **scratch})
        all_there(self._resorting).run_once()
        all_there.destroy()
        for buffer in scratch.values():
            buffer.destroy()

    def destroy(self) -> None:
        self._on_all.destroy()
        self._parts.destroy()
