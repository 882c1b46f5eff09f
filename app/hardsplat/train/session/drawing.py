"""What a training draws with: the rasterizer, buffers as large as its capacity, and the commands
recorded with both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardsplat.gpu.commands.recorder import Recordings
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.owned import Owned
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.protocols import Trainable
from hardsplat.raster.core.sinks import Sink, adam
from hardsplat.settings.raster import Options
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.gradients import finds_statistics
from hardsplat.train.step.batch import Batches, PairRoom
from hardsplat.train.step.capture import Capture
from hardsplat.train.step.loss import term_sums_bytes
from hardsplat.train.step.photos import Photos
from hardsplat.train.step.step import Step
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.refine import allocate_refine
from hardsplat.train.strategies.strategy import Strategy


def sink_of(c: TrainConfig, depths: bool) -> Sink:
    """Where the gradients of a training go. depths: its loss has a term of depth."""
    strategy, has_statistics = STRATEGIES[c.densify.strategy], finds_statistics(c.gradient.gradient)
    return adam(
        c.adam.moments,
        c.adam.visible_adam,
        strategy.statistics and has_statistics,
        strategy.scores and has_statistics,
        c.poses.pose_opt or c.intrinsics.intrinsics_opt,
        depths,
    )


def options_of(config: TrainConfig, lens: str) -> Options:
    """What the settings tell the rasterizer that they name."""
    return replace(BACKENDS[config.raster.rasterizer].options.of(config), lens=lens)


def has_timed_rows(device: Device, config: TrainConfig, lens: str) -> bool:
    """Whether any row of the rasterizer is left to `auto` and would be timed."""
    options = options_of(config, lens)
    return BACKENDS[config.raster.rasterizer].first(device, options) != options


@dataclass(frozen=True)
class StepInputs:
    """What the commands of a session's steps follow from, besides its parameters.

    canvas: width and height, px. lens: a variant of LENSES. terms: the contract's LossTerms.
    timed_rows: see Session.use.
    """

    device: Device
    config: TrainConfig
    canvas: tuple[int, int]
    lens: str
    capture: Capture
    strategy: Strategy
    photos: Photos
    terms: np.ndarray
    timed_rows: bool


class Drawing:
    """The rasterizer of a session's parameters, and what more room for splats or another rasterizer
    replaces with it.

    raster, resources: of every pass, by contract name. sizes: recorded commands that derive work
    sizes from the number of splats. actions: those of the strategy. Raises UserError for what the
    device cannot run, OutOfMemory; then nothing stays allocated.
    """

    raster: Trainable

    def __init__(
        self,
        inputs: StepInputs,
        parameters: Parameters,
        shared: dict[str, Buffer | Image],
        batches: Batches,
        pairs: PairRoom,
    ):
        self._parameters, self._shared, self._batches = parameters, shared, batches
        self._parts = Owned()
        self._recorded = Recordings(inputs.device, {})
        try:
            self._allocate(inputs)
            pairs.make(self.raster, new=True)
            self.record(inputs)
        except BaseException:
            self.destroy()
            raise

    def _allocate(self, inputs: StepInputs) -> None:
        device, config, parameters = inputs.device, inputs.config, self._parameters
        backend, options = BACKENDS[config.raster.rasterizer], options_of(config, inputs.lens)
        if not inputs.timed_rows:
            options = backend.first(device, options)
        sink = sink_of(config, inputs.capture.depths is not None)
        raster = backend.rasterizer(device, parameters, *inputs.canvas, options, sink=sink)
        self.raster = self._parts.add(raster)
        scratch: dict[str, Buffer | Image] = {**allocate_refine(device, parameters.capacity)}
        self._scratch = scratch
        self._parts.add_all(scratch.values())
        self._shared["loss_terms"].upload(inputs.terms)
        sums = Buffer(device, term_sums_bytes(inputs.terms), "term_sums")
        scratch["term_sums"] = self._parts.add(sums)

    @property
    def outdated(self) -> bool:
        """Whether the rasterizer has other buffers than those that the commands were recorded
        with."""
        return self.raster.resources is not self._drawn_from

    def record(self, inputs: StepInputs) -> None:
        """Records the commands again."""
        strategy, photos = inputs.strategy, inputs.photos
        self._recorded.destroy()
        self._drawn_from = self.raster.resources
        self.resources = {**self._shared, **self.raster.resources, **self._scratch}
        self._recorded = recorded = Recordings(inputs.device, self.resources)
        step = Step(
            inputs.device,
            inputs.config,
            self.raster,
            inputs.capture,
            strategy,
            photos.pixel_bytes,
            photos.fetched,
        )
        self.sizes = recorded(step.record_sizes)
        self._batches.record(recorded, step.record, strategy.scores)
        actions = step.actions(self._parameters.capacity)
        self.actions = {name: recorded(record) for name, record in actions.items()}

    def destroy(self) -> None:
        self._recorded.destroy()
        self._parts.destroy()
