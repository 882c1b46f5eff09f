"""What a training draws with: the rasterizer, buffers as large as its capacity, and the commands recorded with both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hardsplat.config import TrainConfig
from hardsplat.gpu.context import Device
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.owned import Owned
from hardsplat.gpu.recorder import Recordings
from hardsplat.raster import BACKENDS
from hardsplat.raster.options import Options
from hardsplat.raster.rasterizer import Trainable
from hardsplat.raster.sinks import Sink, adam
from hardsplat.train.batch import Batches, PairRoom
from hardsplat.train.loss import term_sums_bytes
from hardsplat.train.refine import allocate_refine
from hardsplat.train.step import Step
from hardsplat.train.strategies import STRATEGIES
from hardsplat.variants.gradients import finds_statistics

if TYPE_CHECKING:
    from hardsplat.train.session import Session


def sink_of(c: TrainConfig, depths: bool) -> Sink:
    """Where the gradients of a training go. depths: its loss has a term of depth."""
    strategy, has_statistics = STRATEGIES[c.strategy], finds_statistics(c.gradient)
    return adam(c.moments, c.visible_adam, strategy.statistics and has_statistics, strategy.scores and has_statistics, c.pose_opt or c.intrinsics_opt, depths, c.adam_every > 1)


def options_of(config: TrainConfig, lens: str) -> Options:
    """What the settings tell the rasterizer that they name."""
    return replace(BACKENDS[config.rasterizer].options.of(config), lens=lens)


def has_timed_rows(device: Device, config: TrainConfig, lens: str) -> bool:
    """Whether any row of the rasterizer is left to `auto` and would be timed."""
    options = options_of(config, lens)
    return BACKENDS[config.rasterizer].first(device, options) != options


class Drawing:
    """The rasterizer of a session's parameters, and what more room for splats or another rasterizer replaces with it.

    raster, resources: of every pass, by contract name. sizes: recorded commands that derive work sizes from the number of splats. actions: those of the strategy.
    Raises UserError for what the device cannot run, OutOfMemory; then nothing stays allocated.
    """

    raster: Trainable

    def __init__(self, session: Session, shared: dict[str, Buffer | Image], batches: Batches, pairs: PairRoom):
        self._session, self._shared, self._batches = session, shared, batches
        self._parts = Owned()
        self._recorded = Recordings(session.device, {})
        try:
            self._allocate()
            pairs.make(self.raster, new=True)
            self.record()
        except BaseException:
            self.destroy()
            raise

    def _allocate(self) -> None:
        s, device, config = self._session, self._session.device, self._session.config
        backend, options = BACKENDS[config.rasterizer], options_of(config, s.lens)
        if not s.timed_rows:
            options = backend.first(device, options)
        self.raster = self._parts.add(backend.rasterizer(device, s.parameters, s.width, s.height, options, sink=sink_of(config, s.capture.depths is not None)))
        scratch: dict[str, Buffer | Image] = {**allocate_refine(device, s.parameters.capacity)}
        self._scratch = scratch
        self._parts.add_all(scratch.values())
        terms = s.terms(s.parameters.capacity)
        self._shared["loss_terms"].upload(terms)
        scratch["term_sums"] = self._parts.add(Buffer(device, term_sums_bytes(terms), "term_sums"))

    @property
    def outdated(self) -> bool:
        """Whether the rasterizer has other buffers than those that the commands were recorded with."""
        return self.raster.resources is not self._drawn_from

    def record(self) -> None:
        """Records the commands anew."""
        s = self._session
        self._recorded.destroy()
        self._drawn_from = self.raster.resources
        self.resources = {**self._shared, **self.raster.resources, **self._scratch}
        self._recorded = recorded = Recordings(s.device, self.resources)
        step = Step(s.device, s.config, self.raster, s.capture, s.strategy, s.photos.pixel_bytes, s.photos.fetched)
        self.sizes = recorded(step.record_sizes)
        self._batches.record(recorded, step.record, s.strategy.scores)
        self.actions = {name: recorded(record) for name, record in step.actions(s.parameters.capacity).items()}

    def destroy(self) -> None:
        self._recorded.destroy()
        self._parts.destroy()
