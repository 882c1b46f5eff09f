"""The paper: splats as quads through the graphics pipeline, gradients reduced in the fragment
shader.

Yuan & He, "Efficient Differentiable Hardware Rasterization for 3D Gaussian Splatting", 2025 (arXiv
2505.18764).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all, exchange
from hardsplat.gpu.passes.declared import Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core import stochastic
from hardsplat.raster.core.choose import choose
from hardsplat.raster.core.parameters import Parameters, pairs_wanted
from hardsplat.raster.core.protocols import Drawn, Projection
from hardsplat.raster.core.resolve import Variant, runnable
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.hardware.draws import blocks_of
from hardsplat.raster.hardware.passes import all_passes, backward_of, segments_of, sources
from hardsplat.raster.hardware.rows import SEGMENTS, HardwareOptions, Rows, stochastic_rows
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.hardware import BLOCKS, ORDERINGS, SHAPES
from hardsplat.tables.reductions import ATOMICS, REDUCTIONS

log = logging.getLogger("hardsplat")
# What 'auto' times, in this order, those that differ most first: rows that draw the same but for
# rounding. Formats are left out, which are a choice of accuracy; blending follows from the
# ordering.
TIMED: dict[str, Mapping[str, Variant]] = {
    "ordering": ORDERINGS,
    "shape": SHAPES,
    "block": BLOCKS,
    "reduction": REDUCTIONS,
    "atomics": ATOMICS,
}


def _exact(options: HardwareOptions) -> HardwareOptions:
    """These options with exact gradients."""
    return replace(options, stochastic=None, gradient="auto")


def _drawn_for_estimates(device: Device, options: HardwareOptions) -> HardwareOptions:
    """The options of the images that gradients are estimated from. Raises UserError where they name
    images from lists."""
    if options.blending_row and options.blending_row.listed:
        raise UserError(
            f"--blending {options.blending} goes with exact gradients: leave --gradient "
            "stochastic out, or use --blending fixed"
        )
    exact = _exact(options)
    return replace(exact, blending=str(Rows.first(device, exact, by_unit=True).names["blending"]))


def _in_order(options: HardwareOptions) -> bool:
    """Whether they name a blending front to back, which has one canvas."""
    return options.blending_row is not None and options.blending_row.ordered


def rows_of(device: Device, options: HardwareOptions, backward: bool = True) -> Rows:
    """The rows of these options; of those left to 'auto', the fastest. Raises UserError for what
    the device cannot run.

    backward: gradients are wanted too; images alone need no ordering, if the blending unit makes
    them.
    """
    if options.segments > 1 and _in_order(options):
        raise UserError(
            f"--segments {options.segments}: canvases of depth segments are for the "
            f"blending unit; use --blending fixed, not {options.blending}"
        )
    if options.stochastic:
        return stochastic_rows(
            options, rows_of(device, _drawn_for_estimates(device, options), backward=False)
        )
    options = (
        _exact(options)
        if backward
        else replace(_exact(options), segments=options.segments or SEGMENTS[0])
    )
    choices: dict[str, Sequence[str | int]] = {
        choice: runnable(device, rows)
        for choice, rows in TIMED.items()
        if getattr(options, choice) == "auto"
    }
    if not options.segments and not _in_order(options):
        choices["segments"] = SEGMENTS
    return Rows.first(
        device,
        choose(
            device,
            "hardware",
            options,
            lambda o: Rows.first(device, o).names,
            choices,
            HardwareRasterizer,
            lambda o: sources(device, o),
        ),
    )


def first(device: Device, options: HardwareOptions) -> HardwareOptions:
    """These options with the first rows that run here instead of those that would be timed.
    Raises UserError for what the device cannot run."""
    names = Rows.first(device, _exact(options), by_unit=bool(options.stochastic)).names
    rows: dict[str, Any] = {choice: names[choice] for choice in TIMED}
    options = replace(options, **rows)
    rows_of(device, options)
    return options


def plan(
    device: Device,
    sh_planes: int,
    width: int,
    height: int,
    options: HardwareOptions,
    sink: Sink | None,
    projection: Projection | None = None,
) -> tuple[Projection, Rows, int, int, int, int]:
    """What `all_passes` needs to know of a rasterizer. Raises UserError for options that the device
    cannot run."""
    rows = rows_of(device, options, backward=sink is not None)
    segments = segments_of(device, rows, rows.segments, height)
    rows.names["segments"] = segments
    if rows.ordering.listed and segments == 1:
        rows.names.pop("state_format", None)  # there is no state between draws
    threshold = max(1, options.hybrid_threshold * device.subgroup_size // 32)
    projection = projection or stochastic.projection(
        device, sh_planes, sink, options.antialiased, options.stochastic, options.lens
    )
    return projection, rows, width, height, threshold, segments


class HardwareRasterizer:
    """Draws `parameters` on a canvas of width x height px. Resources: its own and those of
    `parameters`, by contract name.

    sink: None for no backward pass. projection: another than of 3D splats, with a sink of its own.
    Raises UserError for options that the device cannot run, OutOfMemory with nothing allocated.
    """

    def __init__(
        self,
        device: Device,
        parameters: Drawn,
        width: int,
        height: int,
        options: HardwareOptions,
        sink: Sink | None,
        projection: Projection | None = None,
    ):
        self.device, self.width, self.height = device, width, height
        self._passes = plan(
            device, (parameters.sh_degree + 1) ** 2, width, height, options, sink, projection
        )
        self.projection, self.rows, _, _, threshold, self.segments = self._passes
        self._backward = backward_of(self.rows, width, height, self.segments, threshold)
        self._parameters, self._capacity = parameters, parameters.capacity
        self.lists = (
            self._backward.lists
            if self.rows.blending.listed
            or (self.projection.differentiates and self.projection.sink)
            else None
        )
        self.room = (
            0
            if self.lists is None
            else min(self.lists.first_room, self.lists.most(device, parameters.capacity))
        )
        self.pipelines = build_all(device, all_passes(*self._passes))
        self._own: dict[str, Buffer | Image] = {}
        self._said = False  # that there is no room for all pairs
        try:
            self._allocate(parameters.capacity)
        except OutOfMemory:
            self.destroy()
            raise
        if options.stochastic and sink and isinstance(parameters, Parameters):
            parameters.set_perturbations(dict(options.stochastic.perturbations))
        self.resources = {**parameters.all, **self._own}

    def _allocate(self, capacity: int) -> None:
        device, rows, size, own = self.device, self.rows, (self.width, self.height), self._own
        own |= self.projection.allocate(device, capacity)
        for image in self.projection.images:
            name = f"target{image}".replace(" ", "_")
            own[name] = Image(device, *size, rows.target.vk, rows.target.texel, name)
        tall = (self.width, self.height * self.segments)
        if rows.layered(self.segments):
            own["layers"] = Image(device, *tall, rows.format.vk, rows.format.texel, "layers")
        if self.lists:
            own |= self.lists.allocate(device, self.room)
        if not self.projection.differentiates:
            return
        own |= self._backward.allocate(device)
        if self.projection.sink and self.projection.sink.stores:  # in training it is the loss's
            own["d_image"] = Image(device, *size, FORMATS["float32"].vk, np.float32, "d_image")

    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None:
        """parameters, camera, frame, counts -> target. rest: of another recorder, for the draw."""
        run = build_all(self.device, all_passes(*self._passes, picture))
        self.projection.record_forward(recorder, run)
        rest = (
            recorder if self.lists else rest or recorder
        )  # `counts` says only after the lists how much room they want
        self._record_draw(rest, run)
        if picture == "image":
            self._record_lists(rest)

    def _record_lists(self, recorder: Recorder) -> None:
        """The drawn image, order -> the lists that the way back goes by."""
        if self.lists and not self.rows.blending.listed:
            self.lists.record(recorder, self.pipelines)

    def _record_draw(
        self, recorder: Recorder, run: Mapping[str, Pipeline], image: str = ""
    ) -> None:
        """order -> the target of an image of the projection."""
        if self.rows.blending.listed and self.lists:
            self.lists.record(recorder, run)
            return
        if "begin forward" in run:
            recorder.run(run[f"begin forward{image}"], threads=(self.width, self.height))
        recorder.run(
            run[f"draw{image}"], indirect="draw", extent=(self.width, self.height * self.segments)
        )
        if "resolve" in run:
            recorder.run(run[f"resolve{image}"], threads=(self.width, self.height))

    def record_images(self, recorder: Recorder) -> None:
        """Projected splats -> the targets of all images of the projection."""
        for image in self.projection.images:
            self._record_draw(recorder, self.pipelines, image)
        self._record_lists(recorder)

    def record_step(self, recorder: Recorder, compare: Callable[[Recorder], None]) -> None:
        """parameters, camera, frame, counts -> gradients -> the sink. compare: records the loss
        between the images and what it makes of them."""
        self.projection.record_step(recorder, self.pipelines, self, compare, self._capacity)

    def record_backward(self, recorder: Recorder) -> None:
        """d_image, target, order -> d_splats2d -> the sink."""
        self._backward.record(recorder, self.pipelines)
        self.projection.record_backward(recorder, self.pipelines, self._capacity)

    def record_again(self, recorder: Recorder) -> None:
        """Splats whose colours alone are others than in the last draw -> target, by the same
        lists."""
        if self.rows.blending.listed:
            recorder.run(
                self.pipelines["draw"], threads=blocks_of(self.rows.block, self.width, self.height)
            )
        else:
            self._record_draw(recorder, self.pipelines)

    def record_draw_backward(self, recorder: Recorder) -> None:
        """d_image, target, order -> d_splats2d."""
        self._backward.record(recorder, self.pipelines)

    def record_score(self, recorder: Recorder, score: str) -> None:
        """d_image or weights, target -> d_splats2d, which must be clean. score: one of SCORES."""
        self._backward.record(recorder, self.pipelines, f" {score}")

    def make_room(self, wanted: int | None = None) -> bool:
        """For pairs of block and splat, as the tiled rasterizer has it for those of tile and
        splat."""
        if self.lists is None:
            return False
        wanted, most = (
            pairs_wanted(self._parameters.counts) if wanted is None else wanted,
            self.lists.most(self.device, self._capacity),
        )
        limited = (
            wanted > most and max(self.lists.pair_bytes(most + 1).values()) > self.device.max_buffer
        )  # else there are no more, and `wanted` looks ahead
        if limited and not self._said:
            self._said = True
            log.warning(
                "frames ask for up to %s pairs of splat and block of pixels, %s have "
                "room on %s: the others are not drawn",
                wanted,
                most,
                self.device.name,
            )
        if min(wanted, most) <= self.room:
            return False
        room = min(wanted + wanted // 2, most)
        pairs = allocate_all(self.device, self.lists.pair_bytes(room))
        exchange(self.device, self._own, pairs)
        self.room, self.resources = room, {**self.resources, **pairs}
        return True

    def destroy(self) -> None:
        for resource in self._own.values():
            resource.destroy()
