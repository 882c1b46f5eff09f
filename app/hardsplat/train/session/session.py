"""A training run on the GPU: buffers, the pre-recorded step, batches in flight, room for growth,
snapshots.

The step is one command buffer that reads camera, step number and learning rates from buffers, so a
batch is that command buffer submitted many times. Two batches are in flight; the host writes the
view schedule of the next while the GPU works on the last.
"""

from __future__ import annotations

from collections.abc import Callable

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
from hardsplat.raster.core.averages import begin_averages, take_averages
from hardsplat.raster.core.sinks import moments_of
from hardsplat.settings.train import TrainConfig, check_gradient
from hardsplat.tables import quantities
from hardsplat.tables.quantity import Of
from hardsplat.train.session.buffers import SessionBuffers
from hardsplat.train.session.capacity import Room
from hardsplat.train.session.contents import of_other_items
from hardsplat.train.session.drawing import Drawing
from hardsplat.train.session.overfit import views_apart
from hardsplat.train.step import averaging
from hardsplat.train.step.batch import HISTORY, Batches, BatchResult, PairRoom
from hardsplat.train.step.capture import Capture
from hardsplat.train.step.depths import Depths
from hardsplat.train.step.loss import loss_terms
from hardsplat.train.step.photos import Photos
from hardsplat.train.step.resort import resort_due
from hardsplat.train.step.schedule import view_order
from hardsplat.train.step.step import allocate_step, allocate_weights, schedules
from hardsplat.train.step.views import Views, packed_cameras
from hardsplat.train.strategies import STRATEGIES

GROUP = contract.CONSTANTS["GROUP"]


class Session(SessionBuffers):
    """on_batch: called with each finished batch, in order. timed_rows: see `use`. frozen: the
    splats stay as they are.

    photos: the session's from here on. Raises UserError for what the device cannot run, OutOfMemory
    where it does not fit; then nothing stays allocated.
    """

    def __init__(
        self,
        device: Device,
        config: TrainConfig,
        views: Views,
        photos: Photos,
        on_batch: Callable[[BatchResult], None],
        timed_rows: bool = True,
        frozen: bool = False,
    ):
        self.device, self.config, self.views, self.photos, self.on_batch = (
            device,
            config,
            list(views.cameras),
            photos,
            on_batch,
        )
        (self.width, self.height), self.extent = views.canvas, views.extent
        self.lens = views.lens
        self.numbers = list(views.numbers or [0] * len(self.views))
        self.items: dict[Of, int] = {
            "photograph": len(self.views),
            "camera": max(self.numbers) + 1,
            "scene": 1,
        }
        known = None
        if views.depths is not None and config.depth.depth_lambda:
            known = Depths(
                device,
                views.depths,
                config.depth.depth_lambda,
                config.run.max_steps,
                views.extent,
                photos,
            )
        self.capture = Capture(config, self.items, views.extent, frozen, known)
        self.apart = [] if frozen else views_apart(config, len(self.views))
        self._more_opacity_reg = 0.0  # by the strategy, on top of the settings
        self.step, self.bound = 0, 0  # splats there are at most, known without waiting
        self.strategy = STRATEGIES[config.densify.strategy]
        self.room = Room(device, photos)
        self.timed_rows = timed_rows
        self._pairs = PairRoom()
        self.estimates = (
            config.gradient.stochastic.gradient_pairs
            if config.gradient.gradient == "stochastic"
            else 0
        )  # pairs of perturbed images a step
        self._shared: dict[str, Buffer | Image] = {
            **photos.buffers,
            **(known.buffers if known else {}),
        }
        self._drawing: Drawing | None = None
        try:
            self.config = config.changed(moments=moments_of(device, config.adam.moments))
            check_gradient(config)
            self._allocate_shared()
        except BaseException:
            self.destroy()
            raise

    def _allocate_shared(self) -> None:
        """What does not depend on the number of splats."""
        terms, views = self.terms(), packed_cameras(self.views, self.numbers)
        self.weights = terms["weight"].astype(
            np.float64
        )  # of the loss's terms, in the order of its records
        allocate_step(
            self._shared,
            self.device,
            self.config,
            (self.width, self.height),
            self.extent,
            views,
            terms,
            self.capture.frozen,
            self.photos.fetched,
        )
        if self.strategy.scores:
            self._shared["weights"] = allocate_weights(self.device, (self.width, self.height))
        self._batches = Batches(self.device, buffer_in(self._shared, "history"), self._on_batch)

    def terms(self, capacity: int = 0) -> np.ndarray:
        """The contract's LossTerms struct. capacity: of splats."""
        weight = self.config.loss.opacity_reg + self._more_opacity_reg
        settings = self.config.flat() | {"opacity_reg": weight}
        return loss_terms(settings, self.extent, self.items, self.config.model.sh_degree, capacity)

    # -- state in and out --------------------------------------------------------------------------

    def start(self, gaussians: Gaussians) -> None:
        """Begins at step 0 with these splats. Raises OutOfMemory with their number when they do not
        fit."""
        self.restore(self.initial(gaussians))

    def initial(self, gaussians: Gaussians) -> Checkpoint:
        """Step 0 with these splats."""
        return Checkpoint.initial(gaussians, self.config.model.sh_degree, self.items)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on where the checkpoint was made. Raises OutOfMemory like start, UserError where it
        is of other photographs than the session's."""
        n = checkpoint.splats
        others = of_other_items(checkpoint, self.items, self.config)
        self.drain()
        self.room.check(self.config, n)
        try:
            self._allocate(n)
        except OutOfMemory as error:
            raise OutOfMemory(f"{n} splats do not fit: {error}", error.grows_with) from None
        self.parameters.forget(moments=checkpoint.fresh)
        rest = {*others, *STATISTICS, *quantities.averages()} - {*self.strategy.follows}
        if quantities.averages()[0] in checkpoint.buffers and averaging.is_open(
            self.config, self.strategy, checkpoint.step
        ):
            begin_averages(self.parameters, n)
            rest -= {*quantities.averages()}
        if checkpoint.fresh:
            rest |= {name for kind in quantities.ORDER for name in quantities.moments(kind)}
        for name, values in checkpoint.buffers.items():
            if name not in rest:
                self.parameters.write(name, values)
        self._set(n, checkpoint.step)

    def regularize(self, opacity: float) -> None:
        """Gives the mean opacity this weight in the loss, from the next step on."""
        self.config = self.config.changed(opacity_reg=opacity)
        self._weigh_terms()

    def _regularize_more(self) -> None:
        """Gives the mean opacity the weight that the strategy wants for the next step."""
        more = self.strategy.opacity_reg(self.config, self.step)
        if more != self._more_opacity_reg:
            self._more_opacity_reg = more
            self._weigh_terms()

    def _weigh_terms(self) -> None:
        """Tells the GPU the weights of the loss's terms, from the next step on."""
        self.drain()
        terms = self.terms(self.capacity)
        self.weights = terms["weight"].astype(np.float64)
        self._shared["loss_terms"].upload(terms)

    def reschedule(self, config: TrainConfig) -> None:
        """Goes by other schedules from the next step on. config: differs from the session's in
        steps alone."""
        self.drain()
        self.config = config.changed(
            opacity_reg=self.config.loss.opacity_reg, rasterizer=self.config.raster.rasterizer
        )
        for name, told in schedules(
            self.config, self.extent, self.capture.frozen, self.photos.fetched
        ).items():
            self._shared[name].upload(told)
        self._drawn.record(self._inputs())

    # -- running -----------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Queues a batch of steps. Waits only for the batch before the last."""
        self.wait_for_turn()
        self._regularize_more()
        self._fit_pairs()
        schedule = buffer_in(self._shared, "schedule").array(np.uint32).reshape(-1, 2)
        order = view_order(
            self.config.run.seed,
            self.step,
            steps,
            len(self.views),
            self.apart,
            self.config.densify.budget.overfit_check,
        )
        for step, view in enumerate(order, self.step):
            schedule[step % HISTORY] = view, self.photos.place(step, int(view))
        scored = [
            self.strategy.scored(self.config, step) for step in range(self.step, self.step + steps)
        ]
        self._batches.submit(self.step, steps, self.raster.room, scored)
        self.step += steps

    def wait_for_turn(self) -> None:
        """Waits for the batch before the last, after which `run` waits for nothing."""
        self._batches.wait_for_turn()

    def refine(self) -> None:
        """Queues what the strategy has to do after as many steps as were made."""
        for name in self.strategy.due(self.config, self.step):
            self.densify() if name == "densify" else submit(
                self.device, [self._drawn.actions[name]]
            )
        if "resort" in self._drawn.actions and resort_due(self.strategy, self.config, self.step):
            submit(self.device, [self._drawn.actions["resort"]])

    def average(self) -> None:
        """Queues a sample of the splats for their averages, which begin with the first."""
        if not self.parameters.averaged:
            begin_averages(self.parameters, self.count())
        submit(self.device, [self._drawn.actions["average"]])

    def take_averages(self) -> None:
        """Splats become their averages, where those are kept, after all that was queued."""
        if self.parameters.averaged:
            self.drain()
            self.device.wait_idle()
            take_averages(self.parameters)

    def densify(self) -> None:
        """Queues a densification, after making room for what it will add."""
        n, wanted = self.strategy.growth(self)
        if wanted > self.capacity:
            self.drain()
            self._grow(wanted, n)
        submit(self.device, [self._drawn.actions["densify"]])
        self.bound = min(wanted, self.capacity)

    def planned(self, n: int) -> int:
        """Splats that the strategy's plan wants to add to the n that there are."""
        self._drawn.actions["plan"].run_once()
        return int(
            buffer_in(self.resources, "flag_sums").download(np.uint32, 1, 4 * -(-n // GROUP))[0]
        )

    def reset_opacity(self) -> None:
        """Queues an opacity reset, where the strategy has any."""
        submit(self.device, [self._drawn.actions["reset"]])
