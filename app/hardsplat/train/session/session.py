"""A training run on the GPU: buffers, the pre-recorded step, batches in flight, room for growth,
snapshots.

The step is one command buffer that reads camera, step number and learning rates from buffers, so a
batch is that command buffer submitted many times. Two batches are in flight; the host writes the
view schedule of the next while the GPU works on the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import STATISTICS
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import submit
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import buffer_in
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.averages import begin_averages, take_averages
from hardsplat.step.begin import view_order
from hardsplat.step.loss import loss_terms
from hardsplat.step.photos import Photos
from hardsplat.step.runner import BatchResult, PairDemand, StepRunner
from hardsplat.tables import quantities
from hardsplat.train.job.job import Job
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.session.buffers import SessionBuffers
from hardsplat.train.session.capacity import SplatCapacity
from hardsplat.train.session.contents import of_other_items
from hardsplat.train.session.drawing import Drawing
from hardsplat.train.session.working import ShownSplats
from hardsplat.train.step.capture import PhotographPasses
from hardsplat.train.step.depths import Depths
from hardsplat.train.step.resort import resort_due
from hardsplat.train.step.step import allocate_step, allocate_weights, fixed_settings, gpu_settings

GROUP = contract.CONSTANTS["GROUP"]


class Session(SessionBuffers):
    """What changes while a job runs: splats, step, rasterizer, how fast opacities decay.

    photos: those of the job's views, the session's from here on. on_batch: called with each
    finished batch, in order. depths: what is known of the views' depth, (H, W) of 1 / world units,
    0 where nothing is. timed_rows: see `switch_rasterizer`. Raises UserError for what the device
    cannot run, OutOfMemory where it does not fit; then nothing stays allocated.
    """

    def __init__(
        self,
        device: Device,
        job: Job,
        photos: Photos,
        on_batch: Callable[[BatchResult], None],
        depths: Sequence[np.ndarray] | None = None,
        timed_rows: bool = True,
    ):
        self.device, self.job, self.photos, self._on_batch = device, job, photos, on_batch
        self.rasterizer, self.schedule = job.rasterizers[0], job.schedule
        (self.width, self.height), weight = job.views.canvas, job.config.depth.depth_lambda
        self._known: Depths | None = None
        if depths is not None and weight:
            self._known = Depths(device, depths, job.extent, photos)
        self.capture = PhotographPasses(job, self._known)
        self._more_opacity_reg = 0.0  # by the strategy, on top of what settings have
        self.bound, self.exposed = 0, job.schedule.exposed_until > 0
        self.room, self.timed_rows = SplatCapacity(device, job, photos), timed_rows
        self._shown = ShownSplats(job)
        self.pairs = PairDemand(len(job.views.cameras))
        self.pairs.use(self.rasterizer)
        self._shared: dict[str, Buffer | Image] = {
            **photos.buffers,
            **(self._known.buffers if self._known else {}),
        }
        self._drawing: Drawing | None = None
        device.usage.restart()
        try:
            self._allocate_shared()
        except BaseException:
            self.destroy()
            raise

    def _allocate_shared(self) -> None:
        """What does not depend on the number of splats."""
        device, job, terms = self.device, self.job, self.terms()
        # of the loss's terms, in the order of its records
        self.weights = terms["weight"].astype(np.float64)
        settings = gpu_settings(job, self.schedule, self.photos.fetched)
        settings |= fixed_settings(job, terms)
        observers = (self.pairs.note, self._shown.note, self._on_batch)
        self.runner = StepRunner(device, settings, *observers)
        self._shared.update(allocate_step(device, job))
        if job.strategy.scores:
            self._shared["weights"] = allocate_weights(device, job.views.canvas)

    def terms(self, capacity: int = 0) -> np.ndarray:
        """The contract's LossTerms struct. capacity: of splats."""
        job = self.job
        weight = job.config.loss.opacity_reg + self._more_opacity_reg
        settings, degree = job.flat | {"opacity_reg": weight}, job.config.model.sh_degree
        return loss_terms(settings, job.extent, job.views.items, degree, capacity)

    # -- state in and out --------------------------------------------------------------------------

    def start(self, gaussians: Gaussians) -> None:
        """Begins at step 0 with these splats. Raises OutOfMemory with their number when they do not
        fit."""
        self.restore(self.initial(gaussians))

    def initial(self, gaussians: Gaussians) -> Checkpoint:
        """Step 0 with these splats."""
        first = Checkpoint.initial(gaussians, self.job.config.model.sh_degree, self.job.views.items)
        for name, values in self.job.part.exposures.items():
            first.buffers[name][:] = values
        return first

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continues where the checkpoint was made. Raises OutOfMemory like start, UserError where
        it is of other photographs than the session's."""
        n, averages = checkpoint.splats, quantities.averages()
        others = of_other_items(checkpoint, self.job.views.items, self.job.flat)
        self.drain()
        self.room.check(n, self.rasterizer)
        try:
            self._allocate(n)
        except OutOfMemory as error:
            raise OutOfMemory(f"{n} splats do not fit: {error}", error.grows_with) from None
        self.parameters.forget(moments=checkpoint.fresh)
        rest = {*others, *STATISTICS, *averages} - {*self.job.strategy.follows}
        if averages[0] in checkpoint.buffers and self.schedule.averaging.is_open(checkpoint.step):
            begin_averages(self.parameters, n)
            rest -= {*averages}
        if checkpoint.fresh:
            rest |= {name for kind in quantities.ORDER for name in quantities.moments(kind)}
        for name, values in checkpoint.buffers.items():
            if name not in rest:
                self.parameters.write(name, values)
        self.parameters.set_count(n)
        self.bound = n
        try:
            if self.job.packed:
                self._shown.measure(self.device, self.parameters, n)
            self._draw()
        except OutOfMemory as error:
            why = str(error)
            if self.job.packed and not self.job.out_of_core:
                share = f"a view shows {self._shown.share:.0%} of them"
                why = f"{share}, --out-of-core on takes less: {why}"
            raise OutOfMemory(f"{n} splats do not fit: {why}", error.grows_with) from None
        self._set(n, checkpoint.step)

    def begin_again(self, job: Job, first: Checkpoint) -> None:
        """Goes back to the first step, with another job on the same photographs. first: the state
        there. Raises what the constructor and restore raise."""
        self.drain()
        self._release()
        self.runner.destroy()
        kept = {*self.photos.buffers, *(self._known.buffers if self._known else ())}
        for name in self._shared.keys() - kept:
            self._shared.pop(name).destroy()
        self.job, self.schedule, self.exposed = job, job.schedule, job.schedule.exposed_until > 0
        self.capture = PhotographPasses(job, self._known)
        self.room = SplatCapacity(self.device, job, self.photos)
        self._allocate_shared()
        self.restore(first)

    def end_exposures(self) -> None:
        """Leaves photographs as they are from the next step on: the splats learn what is common to
        those that show them."""
        self.drain()
        for q in quantities.QUANTITIES.values():
            if quantities.is_exposure(q):
                self.parameters.write(q.name, np.zeros_like(self.trained_of(q.name)))
        self.exposed = False

    def _weigh_terms(self) -> None:
        """Writes the weights of the loss's terms, for the next step on."""
        self.drain()
        terms = self.terms(self.capacity)
        self.weights = terms["weight"].astype(np.float64)
        self.runner.update({"loss_terms": terms})

    def reschedule(self, schedule: Schedule) -> None:
        """Goes by another schedule of the job from the next step on."""
        self.drain()
        before, self.schedule = self.schedule, schedule
        self.runner.update(gpu_settings(self.job, schedule, self.photos.fetched))
        if schedule.steps != before.steps:
            self._drawn.record(self._inputs())

    # -- running -----------------------------------------------------------------------------------

    @property
    def batch_steps(self) -> int:
        """Most steps of a batch, for which photographs in flight have room."""
        return min(self.job.config.run.batch_steps, self.photos.most_steps)

    def run(self, steps: int) -> None:
        """Queues a batch of steps. Waits only for the batch before the last."""
        job, strategy, first = self.job, self.schedule.strategy, self.step
        self.runner.wait_for_turn()
        if (more := strategy.opacity_reg(first)) != self._more_opacity_reg:
            self._more_opacity_reg = more
            self._weigh_terms()
        self._fit_working()
        self._fit_lists()
        held, until = np.flatnonzero(np.isin(job.epoch, job.validation)), self.schedule.main_steps
        order = view_order(job.config.run.seed, first, steps, len(job.epoch), held, until)
        scored = [strategy.scored(step) for step in range(first, first + steps)]
        views, most = job.epoch[order], self.raster.pair_capacity
        self.runner.run(views, self.photos.place, most, scored)

    def _queue(self, action: str) -> None:
        submit(self.device, [self._drawn.actions[action]()])

    def refine(self) -> None:
        """Queues what the strategy has to do after as many steps as were made."""
        strategy = self.schedule.strategy
        for name in strategy.due(self.step):
            self.densify() if name == "densify" else self._queue(name)
        if resort_due(strategy, self.step):
            self._drawn.resort()

    def average(self) -> None:
        """Queues a sample of the splats for their averages, which begin with the first."""
        if not self.parameters.averaged:
            begin_averages(self.parameters, self.count())
        self._queue("average")

    def take_averages(self) -> None:
        """Splats become their averages, where those are kept, after all that was queued."""
        if self.parameters.averaged:
            self.drain()
            self.device.wait_idle()
            take_averages(self.parameters)

    def densify(self) -> None:
        """Queues a densification, after making room for what it will add."""
        n, wanted = self.schedule.strategy.growth(self)
        if wanted > self.capacity:
            self.drain()
            self._grow(wanted, n)
        self._queue("densify")
        self.bound = min(wanted, self.capacity)

    def planned(self, n: int) -> int:
        """Splats that the strategy's plan wants to add to the n that there are."""
        self._drawn.actions["plan"]().run_once()
        sums = buffer_in(self.resources, "flag_sums")
        return int(sums.download(np.uint32, 1, 4 * -(-n // GROUP))[0])
