"""A training step as commands: what it goes by that no number of splats changes, and its passes in
their order."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.protocols import Trainable
from hardsplat.raster.core.sort import SORT_PASSES
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.tables.formats import FORMATS
from hardsplat.train.step import photos
from hardsplat.train.step.averaging import averaging_pass, record_average
from hardsplat.train.step.batch import HISTORY
from hardsplat.train.step.capture import Capture
from hardsplat.train.step.loss import allocate_loss, loss_passes, record_loss
from hardsplat.train.step.photos import fetch_pass, record_fetch
from hardsplat.train.step.resort import record_resort, resort_passes
from hardsplat.train.step.schedule import (
    adam_settings,
    rate_plans,
    record_begin,
    record_end,
    step_settings,
)
from hardsplat.train.strategies.refine import refine_settings
from hardsplat.train.strategies.strategy import Record, Strategy


def schedules(
    config: TrainConfig, extent: float, frozen: bool, fetched: bool = False
) -> dict[str, np.ndarray]:
    """What steps go by that follows from the length of the run, by contract name. extent: of the
    scene, world units. frozen: splats stay as they are. fetched: see Photos."""
    c, planes = config, quantities.plane_count("splat")
    return {
        "step_settings": step_settings(
            c.run.seed,
            c.adam.adam_beta1,
            c.adam.adam_beta2,
            c.scene.background,
            planes,
            c.model.sh_degree,
            c.model.sh_degree_interval,
            c.scene.near_plane,
            fetched,
        ),
        "rate_plans": rate_plans(c, extent, frozen),
        "refine_settings": refine_settings(c, extent),
    }


def allocate_step(
    resources: MutableMapping[str, Buffer | Image],
    device: Device,
    config: TrainConfig,
    canvas: tuple[int, int],
    extent: float,
    views: np.ndarray,
    terms: np.ndarray,
    frozen: bool,
    fetched: bool,
) -> None:
    """Adds to `resources` what steps go by and write down, whatever the number of splats. With
    OutOfMemory some of it is there.

    canvas: width and height, px. extent: of the scene, world units. views: the contract's Camera of
    each. terms: LossTerms. frozen: splats stay as they are. fetched: see Photos.
    """
    c = config
    told = schedules(c, extent, frozen, fetched) | {
        "adam_settings": adam_settings(c.adam.adam_beta1, c.adam.adam_beta2, c.adam.adam_eps),
        "loss_terms": terms,
        "views": views,
    }
    sizes = {name: values.size for name, values in told.items()} | {
        "rates": told["rate_plans"].size,
        "moved_planes": 1,
    }
    sizes |= {"schedule": HISTORY, "history": HISTORY}
    for name, n in sizes.items():
        buffer = resources[name] = Buffer(
            device, n * contract.itemsize(name), name, host=name in ("schedule", "history")
        )
        if name in told:
            buffer.upload(told[name])
    resources.update(
        allocate_loss(
            device,
            *canvas,
            differences=c.gradient.gradient == "stochastic",
            exposed=c.exposure.exposure != "none",
        )
    )


def allocate_weights(device: Device, canvas: tuple[int, int]) -> Image:
    """The image that scores are drawn with, canvas: width and height, px."""
    return Image(device, *canvas, FORMATS["float32"].vk, np.float32, "weights")


def step_passes(
    config: TrainConfig,
    capture: Capture,
    strategy: Strategy,
    photo_bytes: int,
    in_order: bool = True,
) -> list[ComputePass]:
    """All but those of the rasterizer. in_order: it sorts splats by depth, so that they can be put
    in another order too, if their number changes at all."""
    refining = strategy.passes(config.adam.moments, photo_bytes)
    resorting = (
        resort_passes(config.adam.moments, strategy.follows) if refining and in_order else ()
    )
    averaging = [averaging_pass(config, strategy)] if config.adam.average_steps else []
    losses = loss_passes(
        photo_bytes,
        config.gradient.gradient == "stochastic",
        config.exposure.exposure,
        capture.cameras,
    )
    return [*losses, *capture.passes(), *SORT_PASSES[:1], *refining, *resorting, *averaging]


def record_deep_step(
    recorder: Recorder,
    raster: Trainable,
    compare: Callable[[Recorder], None],
    compare_depth: Callable[[Recorder], None],
) -> None:
    """A step that draws depth before the image, with the passes of the image.

        project, sort -> depth instead of colour -> draw -> the loss of depth -> backward draw
        -> colours again -> draw -> the loss -> backward draw -> the sink

    compare, compare_depth: record the losses of the image and of depth, target -> d_image.
    The moments of geometry that both backward draws add up have one place, since they are sums over
    fragments. What is written by one draw is used up before the other.
    """
    run = raster.pipelines
    raster.projection.record_forward(recorder, run)
    recorder.run(run["show depth"], indirect="splat_groups")
    raster.record_images(recorder)
    compare_depth(recorder)
    raster.record_draw_backward(recorder)
    recorder.run(run["show colours"], indirect="splat_groups")
    raster.record_again(recorder)
    compare(recorder)
    raster.record_backward(recorder)


class Step:
    """The passes of a step, and of what a strategy does between steps, for one rasterizer.
    photo_bytes: of a pixel in `photos`. fetched: see Photos."""

    def __init__(
        self,
        device: Device,
        config: TrainConfig,
        raster: Trainable,
        capture: Capture,
        strategy: Strategy,
        photo_bytes: int,
        fetched: bool = False,
    ):
        self.config, self.raster, self.capture, self.strategy = config, raster, capture, strategy
        self._run = build_all(
            device, step_passes(config, capture, strategy, photo_bytes, raster.projection.in_order)
        )
        self._fetch = build_all(device, [fetch_pass(photo_bytes)])["fetch"] if fetched else None

    def record(self, recorder: Recorder, scores: bool = False) -> None:
        """The whole step. scores: with those of the strategy."""
        run, raster, capture = self._run, self.raster, self.capture
        record_begin(recorder, run)
        if fetch := self._fetch:
            recorder.beside(photos.BESIDE, lambda r: record_fetch(r, fetch))
        if compare_depth := capture.compare_depth(run, raster.width, raster.height):
            record_deep_step(recorder, raster, self._compare, compare_depth)
        else:
            raster.record_step(recorder, self._compare)
        capture.record_moved(recorder, run, raster.pipelines)
        if scores:
            self.strategy.record_scores(recorder, run, raster)
        self.strategy.record_step(recorder, run, self.config)
        record_end(recorder, run)

    def _compare(self, recorder: Recorder) -> None:
        recorder.end_beside()
        self.capture.record_compared(
            recorder,
            self._run,
            lambda r: record_loss(r, self._run, self.raster.width, self.raster.height),
        )

    def record_sizes(self, recorder: Recorder) -> None:
        """Work sizes that follow from counts.splats."""
        recorder.run(self._run["sizes"], threads=(1,))

    def actions(self, capacity: int) -> dict[str, Callable[[Recorder], None]]:
        """What records each of the strategy's recordings, by name, "resort" where splats can be put
        in another order, "average" where averages are kept. capacity: of splats."""

        def with_run(record: Record) -> Callable[[Recorder], None]:
            return lambda recorder: record(recorder, self._run)

        more: dict[str, Callable[[Recorder], None]] = {}
        if "resort keys" in self._run:
            more["resort"] = lambda recorder: record_resort(
                recorder, self._run, self.raster.pipelines, self.strategy.follows
            )
        if "average" in self._run:
            more["average"] = lambda recorder: record_average(recorder, self._run, capacity)
        return {
            name: with_run(record) for name, record in self.strategy.recordings().items()
        } | more
