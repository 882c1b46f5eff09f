"""A training run on the GPU: what changes while a job runs.

The step is one command buffer that reads camera, step number and learning rates from buffers, so a
batch is that command buffer submitted many times. Two batches are in flight; the host writes the
view schedule of the next while the GPU works on the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
from tqdm import tqdm

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory, undone
from hardsplat.contract.footprint import by_purpose
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned, allocate_filled, buffer_in
from hardsplat.gpu.passes.pipelines import begin_all
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.shares import hiding, small_rasterizer
from hardsplat.step.begin import view_order
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES, allocate_loss, loss_terms
from hardsplat.step.photos import Photos
from hardsplat.step.runner import LONGEST_BATCH, BatchResult, PairDemand, StepRunner
from hardsplat.train.features import parts_of
from hardsplat.train.job.job import Job
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.session.drawing import Drawing, VisibleShare
from hardsplat.train.session.store import Allocate, SplatLimit, SplatStore, fresh, of_other_items
from hardsplat.train.step.resort import resort_due
from hardsplat.train.step.step import schedule_settings, sink_of, step_buffers, step_passes

GROUP = contract.CONSTANTS["GROUP"]
# of a pixel, as long as no photograph has alpha; the passes of another number are built when they
# are needed
PHOTO_BYTES = 3


def build_ahead(device: Device, job: Job) -> None:
    """Has threads begin with the pipelines that a session of the job builds, for each of its
    rasterizers in turn, and those that measure it.

    Nothing is lost where it builds other passes: it builds those itself. Raises UserError for what
    the device cannot run.
    """
    planes, parts = (job.config.model.sh_degree + 1) ** 2, parts_of(job)
    for name in job.rasterizers:
        backend, options = BACKENDS[name], job.options(name)
        first = backend.first_runnable(device, options)
        if len(job.rasterizers) == 1 and first != options:
            continue  # the session will time what is left open, which takes the device
        sink = sink_of(job, parts)
        begin_all(device, backend.passes(device, planes, *job.views.canvas, first, sink))
        if name == job.rasterizers[0]:
            begin_all(device, step_passes(job, job.schedule, parts, PHOTO_BYTES))
    begin_all(device, (*METRIC_PASSES, *FITTED_PASSES))


class Session:
    """A job while it runs.

    photos: those of the job's views, the session's from here on. on_batch: called with each
    finished batch, in order. inputs: what features know of the photographs. It begins with the
    job's first rasterizer, and times variants of that where there is no other to compare it with.
    Raises UserError for what the device cannot run, OutOfMemory where it does not fit; then nothing
    stays allocated.

    runner: the steps. store: the splats. drawing: the rasterizer and the commands. limit: how many
    splats fit. pairs: what lists of pairs have room for. staying: names of quantities that are
    not 0 again yet, see Schedule.ends.
    """

    def __init__(
        self,
        device: Device,
        job: Job,
        photos: Photos,
        on_batch: Callable[[BatchResult], None],
        inputs: Mapping[str, np.ndarray] = {},
    ):
        self.device, self.photos, self._on_batch = device, photos, on_batch
        self.width, self.height = job.views.canvas
        self.faded = 0
        self._lasting, self._owned, self._freeing = Owned(), Owned(), threading.Lock()
        self._visible, self.pairs = VisibleShare(job), PairDemand(len(job.views.cameras))
        self.pairs.use(job.rasterizers[0])
        device.usage.restart()
        with undone(photos.destroy), undone(self._lasting.destroy), undone(self._owned.destroy):
            self._inputs = allocate_filled(device, inputs)
            self._lasting.add_all(self._inputs.values())
            self._open(job, job.rasterizers[0], len(job.rasterizers) == 1)

    def _open(self, job: Job, rasterizer: str, timed_rows: bool) -> None:
        """What a job has before there are splats."""
        device, photos, own = self.device, self.photos, self._owned
        self.job = job
        self._more_opacity_reg = 0.0  # by the strategy, on top of what settings have
        self.staying = set(job.schedule.ends)
        self.parts = parts_of(job)
        self.limit = SplatLimit(device, job, photos)
        settings = schedule_settings(job, job.schedule, self.parts, photos.fetched)
        fixed = step_buffers(job, self.parts, self._terms())
        self.runner = own.add(
            StepRunner(
                device, fixed | settings, self.pairs.note, self._visible.note, self._on_batch
            )
        )
        shared = allocate_loss(device, *job.views.canvas, job.config.gradient.estimates > 0)
        own.add_all(shared.values())
        shared |= self.runner.buffers | photos.buffers | self._inputs
        self.store = own.add(SplatStore(device, job, self.runner.drain))
        self.drawing = own.add(
            Drawing(
                device,
                job,
                photos,
                self.parts,
                self.store,
                self.runner,
                shared,
                self.pairs,
                self._visible,
                rasterizer,
                timed_rows,
            )
        )

    def _terms(self, capacity: int = 0) -> np.ndarray:
        """The contract's LossTerms struct. capacity: of splats."""
        job = self.job
        weight = job.config.loss.opacity_reg + self._more_opacity_reg
        settings, degree = job.flat | {"opacity_reg": weight}, job.config.model.sh_degree
        return loss_terms(settings, job.views.extent, job.items, degree, capacity)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the loss's terms, in the order of its records, in the steps that were
        queued."""
        return self._terms()["weight"].astype(np.float64)

    # -- state in and out --------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """The job's, or what photographs that are held back have made of it."""
        return self.drawing.schedule

    @property
    def step(self) -> int:
        """Steps that were queued."""
        return self.runner.step

    def start(self, gaussians: Gaussians) -> None:
        """Begins at step 0 with these splats. Raises OutOfMemory with their number when they do not
        fit."""
        self.restore(self.initial(gaussians))

    def initial(self, gaussians: Gaussians) -> Checkpoint:
        """Step 0 with these splats."""
        first = Checkpoint.initial(gaussians, self.job.config.model.sh_degree, self.job.items)
        for name, values in self.job.part.known.items():
            first.buffers[name][:] = values
        return first

    def snapshot(self, allocate: Allocate = fresh) -> Checkpoint:
        """Everything that a resume needs, see SplatStore."""
        return self.store.snapshot(self.step, allocate)

    def restore(self, state: Checkpoint) -> None:
        """Continues where a checkpoint was made. Raises OutOfMemory like start, UserError where it
        is of other photographs than the session's."""
        n, job = state.splats, self.job
        others = of_other_items(state, job.items, job.flat)
        self.drain()
        self.limit.check(n, self.drawing.rasterizer)
        self.drawing.drop()
        room = self.limit.first_capacity(n, self.drawing.rasterizer)
        averaged = self.schedule.averaging.is_open(state.step)
        try:
            self.store.open(state, room, others, averaged)
            if job.packed:
                self._visible.measure(self.device, self.store.parameters, n)
            self.drawing.make(self._terms(self.store.capacity))
        except OutOfMemory as error:
            why = str(error)
            if job.packed and not job.out_of_core and self._visible.share:
                share = f"a view shows {self._visible.share:.0%} of them"
                why = f"{share}, --out-of-core on takes less: {why}"
            raise OutOfMemory(f"{n:,} splats do not fit: {why}", error.grows_with) from None
        self._set(n, state.step)

    def begin_again(self, job: Job, first: Checkpoint) -> None:
        """Goes back to the first step, with another job on the same photographs. first: the state
        there. Raises what the constructor and restore raise."""
        self.drain()
        drawing = self.drawing
        drawing.drop()
        self._owned.destroy()
        self._open(job, drawing.rasterizer, drawing.timed_rows)
        self.restore(first)

    def expire(self) -> None:
        """Sets quantities to 0 whose end has come. Without exposures the splats learn what is
        common to the photographs that show them."""
        ended = {name for name in self.staying if self.step >= self.schedule.ends[name]}
        for name in ended:
            self.store.parameters.write(name, np.zeros_like(self.store.trained(name)))
        self.staying -= ended

    def reschedule(self, schedule: Schedule) -> None:
        """Goes by another schedule of the job from the next step on."""
        self.drain()
        before, self.drawing.schedule = self.schedule, schedule
        self.runner.update(schedule_settings(self.job, schedule, self.parts, self.photos.fetched))
        if schedule.steps != before.steps:
            self.drawing.record()

    # -- running -----------------------------------------------------------------------------------

    @property
    def batch_steps(self) -> int:
        """Most steps of a batch, for which photographs in flight have room."""
        return min(self.job.config.run.batch_steps, self.photos.most_steps, LONGEST_BATCH)

    def run(self, steps: int) -> None:
        """Queues a batch of steps. Waits only for the batch before the last."""
        job, strategy, first = self.job, self.schedule.strategy, self.step
        self.runner.wait_for_turn()
        if (more := strategy.opacity_reg(first)) != self._more_opacity_reg:
            self.drain()
            self._more_opacity_reg = more
            self.runner.update({"loss_terms": self._terms(self.store.capacity)})
        if self.drawing.is_short:
            bound = self.store.bound
            self._rebuild()
            self.store.bound = bound
        until = self.schedule.main_steps
        seed, views = job.config.run.seed, len(job.epoch)
        order = view_order(seed, first, steps, views, job.held_back, until)
        scored = [strategy.scored(step) for step in range(first, first + steps)]
        self.drawing.run(job.epoch[order], scored)

    def drain(self) -> None:
        """Waits for all batches in flight."""
        self.runner.drain()

    def refine(self) -> None:
        """Queues what the strategy has to do after as many steps as were made."""
        strategy = self.schedule.strategy
        for name in strategy.due(self.step):
            self.densify() if name == "densify" else self.drawing.queue(name)
        if resort_due(strategy, self.step):
            self.drawing.resort()

    def densify(self) -> None:
        """Queues a densification, after making room for what it will add."""
        wanted = self.schedule.strategy.growth(self.step, self.store, self._planned)
        if wanted > self.store.capacity:
            self._grow(wanted)
        self.drawing.queue("densify")
        self.store.bound = min(wanted, self.store.capacity)

    def _planned(self, n: int) -> int:
        """Splats that the strategy's plan wants to add to the n that there are."""
        self.drawing.action("plan").run_once()
        sums = buffer_in(self.resources, "flag_sums")
        return int(sums.download(np.uint32, 1, 4 * -(-n // GROUP))[0])

    def average(self) -> None:
        """Queues a sample of the splats for their averages, which begin with the first."""
        store = self.store
        if store.parameters.averaged or store.keep_averages(store.count()):
            self.drawing.queue("average")

    def finish(self) -> None:
        """Splats become their averages, where those are kept, after all that was queued; directions
        that no photograph saw get the colours around them. What hides the view between photographs
        becomes transparent, where there is memory to find it."""
        self.drain()
        self.device.wait_idle()
        self.store.finish()
        self._clear_view()

    def _clear_view(self) -> None:
        config, cameras = self.job.config, self.job.views.cameras
        near, exact = config.scene.near_plane, config.run.deterministic
        store, raster, own = self.store, self.raster, Owned()
        try:
            if self.drawing.working or not raster.projection.differentiates:
                raster = small_rasterizer(self.device, store.parameters, cameras[0], exact)
                own.add(raster)
            hides = hiding(raster, store.count(), cameras, near, self.resources) >= 1
        except OutOfMemory as error:
            tqdm.write(f"note: splats that hide the view between photographs stay: {error}")
        else:
            self.faded = int(hides.sum())
            store.fade(hides)
        finally:
            own.destroy()

    # -- drawing -----------------------------------------------------------------------------------

    @property
    def raster(self) -> Rasterizer:
        """Draws the splats."""
        return self.drawing.raster

    @property
    def resources(self) -> dict[str, Buffer | Image]:
        """Everything on the device, by contract name."""
        return self.drawing.resources

    def switch_rasterizer(self, rasterizer: str, timed_rows: bool = True) -> None:
        """Draws with another rasterizer from the next step on. timed_rows: of its rows left to
        `auto` those that were timed, not the first that run.

        Raises UserError where it does not run or fit here; the session then needs another switch.
        """
        drawing = self.drawing
        drawn_so = timed_rows == drawing.timed_rows or not drawing.has_timed_rows(rasterizer)
        if rasterizer == drawing.rasterizer and drawn_so and drawing.made:
            return
        self.drain()
        drawing.rasterizer, drawing.timed_rows = rasterizer, timed_rows
        self.pairs.use(rasterizer)
        self._rebuild()

    def _grow(self, wanted: int) -> None:
        """Room for `wanted` splats, or as many as fit; growth is cut there and the run
        continues."""
        before = self.store.capacity
        capacity = self.limit.capacity_for(wanted, before, self.drawing.rasterizer)
        if capacity == before:
            return
        try:
            self._rebuild(capacity)
        except OutOfMemory as error:
            self.limit.refuse(capacity, before, error)
            self._rebuild(before)

    def _rebuild(self, capacity: int = 0) -> None:
        """Draws anew, the same splats at the same step. capacity: of splats from now on, if not
        0."""
        n, step = self.store.count(), self.step
        self.drawing.drop()
        if capacity:
            self.store.parameters.resize(capacity, n)
        self.drawing.make(self._terms(self.store.capacity))
        self._set(n, step)

    def _set(self, n: int, step: int) -> None:
        """Number of splats and step, and what the GPU derives from the first: a densification may
        come before any step does it."""
        self.store.set_count(n)
        frame = contract.struct("Frame", step=step, seed=self.job.config.run.seed)
        self.resources["frame"].upload(frame)
        self.drawing.sizes.run_once()
        self.runner.step = step

    def memory(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        there = self.resources.items()
        own = {n: r for n, r in there if not (isinstance(r, Buffer) and (r.host or r.within))}
        sizes = {n: r.nbytes for n, r in own.items()} | self.store.parameters.nbytes()
        if working := self.drawing.working:
            for name, size in working.splats.nbytes().items():
                sizes[name] = sizes.get(name, 0) + size
        return by_purpose(sizes)

    def drop_photos(self) -> None:
        """Frees the photographs, after the last step. By any thread, even after `destroy`."""
        with self._freeing:
            self.photos.destroy()

    def destroy(self) -> None:
        """Frees everything, the photographs too."""
        self.runner.settle()
        self._owned.destroy()
        self._lasting.destroy()
        self.drop_photos()
