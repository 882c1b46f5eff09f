"""The paper: splats as quads through the graphics pipeline, gradients reduced in the fragment
shader.

Yuan & He, "Efficient Differentiable Hardware Rasterization for 3D Gaussian Splatting", 2025 (arXiv
2505.18764).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core.choose import Search
from hardsplat.raster.core.projection import Perspective, Projection, for_images
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.resolve import Variant, runnable, thresholds
from hardsplat.raster.core.sinks import STORE, Sink
from hardsplat.raster.core.sort import ranking_lanes
from hardsplat.raster.hardware.draws import (
    FRAGMENTS,
    Blocked,
    FragmentLists,
    Listed,
    Ordered,
    forward_passes,
)
from hardsplat.raster.hardware.rows import (
    SEGMENTS,
    THRESHOLD,
    HardwareOptions,
    Rows,
    stochastic_rows,
)
from hardsplat.tables.formats import TargetFormat
from hardsplat.tables.gradients import ATOMICS, REDUCTIONS
from hardsplat.tables.hardware import BLOCKS, ORDERINGS, SHAPES
from hardsplat.tables.pictures import PICTURES


def backward_of(
    rows: Rows, width: int, height: int, segments: int, sink: Sink | None = None
) -> Listed | Ordered:
    """The way from d_image to d_splats2d for this sink, with its `scores` also those of SCORES."""
    kind = Listed if rows.ordering.listed else Ordered
    scores, stored = (sink.scores, sink.rows) if sink else (False, False)
    return kind(rows, width, height, segments, scores, stored)


def all_passes(
    projection: Projection,
    rows: Rows,
    width: int,
    height: int,
    segments: int,
    picture: str = "image",
) -> list[ComputePass | DrawPass]:
    """Passes of a projection, and from splats2d and order to the target; with a sink, to
    d_splats2d."""
    drawn = PICTURES[picture]
    if rows.blending.listed:
        forward = FragmentLists(rows, width, height, segments).passes(drawn)
    else:
        forward = forward_passes(Blocked(rows, width, height, segments), drawn)
    if picture == "image":
        forward = for_images(projection, forward)
    backward: list[ComputePass | DrawPass] = []
    if projection.differentiates and projection.sink:
        backward = backward_of(rows, width, height, segments, projection.sink).passes()
    return [*projection.passes(rows.shape.command, picture), *forward, *backward]


def sources(device: Device, options: HardwareOptions) -> set[ShaderSource]:
    """The shaders of a rasterizer with these options, which name every row that matters."""
    rows = Rows.first(device, options)
    projection = Perspective(1, STORE, lanes=ranking_lanes(device))
    passes = all_passes(projection, rows, 1, 1, rows.segments)
    return {source for p in passes for source in p.sources()}


# What 'auto' times, in this order, those that differ most first: rows that draw the same but for
# rounding. Formats are left out, which are a choice of accuracy; blending follows from the
# ordering.
TIMED: dict[str, Mapping[str, Variant]] = dict(
    ordering=ORDERINGS, shape=SHAPES, block=BLOCKS, reduction=REDUCTIONS, atomics=ATOMICS
)


def _exact(options: HardwareOptions) -> HardwareOptions:
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
    """The rows of these options; of those that are automatic, the fastest. Raises UserError for
    what the device cannot run.

    backward: there are gradients too; images alone need no ordering, if the blending unit makes
    them.
    """
    if options.segments > 1 and _in_order(options):
        raise UserError(
            f"--segments {options.segments}: canvases of depth segments are for the "
            f"blending unit; use --blending fixed, not {options.blending}"
        )
    if options.stochastic:
        drawn = rows_of(device, _drawn_for_estimates(device, options), backward=False)
        return stochastic_rows(options, drawn)
    options = _exact(options)
    if not backward:
        segments, threshold = options.segments or SEGMENTS[0], options.hybrid_threshold or THRESHOLD
        options = replace(options, segments=segments, hybrid_threshold=threshold)
    choices: dict[str, list[str | int]] = {
        choice: [*runnable(device, rows, choice)]
        for choice, rows in TIMED.items()
        if getattr(options, choice) == "auto"
    }
    if not options.segments and not _in_order(options):
        choices["segments"] = [*SEGMENTS]
    if not options.hybrid_threshold and _has_threshold(options.reduction, auto=True):
        choices["hybrid_threshold"] = [*thresholds(device, THRESHOLD)]

    def first(options: HardwareOptions) -> dict[str, str | int]:
        names = Rows.first(device, options).names
        other = options.hybrid_threshold not in (0, THRESHOLD)
        if other and "hybrid_threshold" in choices and "hybrid_threshold" not in names:
            raise UserError(f"--reduction {names['reduction']} has no threshold")
        return {"hybrid_threshold": THRESHOLD, **names}

    made_of = partial(sources, device)
    search = Search("hardware", options, first, choices, HardwareRasterizer, made_of)
    return Rows.first(device, search.choose(device))


def _has_threshold(reduction: str, auto: bool = False) -> bool:
    """Whether a row of REDUCTIONS has one; `auto` of what any row may turn out to be."""
    row = REDUCTIONS.get(reduction)
    return row.threshold if row else auto


def first_runnable(device: Device, options: HardwareOptions) -> HardwareOptions:
    """These options with the first rows that run here instead of those that would be timed.
    Raises UserError for what the device cannot run."""
    names = Rows.first(device, _exact(options), by_unit=bool(options.stochastic)).names
    rows: dict[str, Any] = {choice: names[choice] for choice in TIMED}
    if _has_threshold(rows["reduction"]):
        rows["hybrid_threshold"] = options.hybrid_threshold or THRESHOLD
    options = replace(options, **rows)
    rows_of(device, options)
    return options


class HardwareRasterizer(Rasterizer):
    """Quads through the graphics pipeline, gradients reduced in the fragment shader. Pairs are
    those of fragment lists."""

    options, needs = HardwareOptions, {"fragments": FRAGMENTS}
    resolve = rows_of = staticmethod(rows_of)
    first_runnable = staticmethod(first_runnable)
    sources = staticmethod(sources)
    all_passes = staticmethod(all_passes)
    rows: Rows
    parts, beyond = "block of pixels", "the others are not drawn"
    lists: FragmentLists | None = None

    @classmethod
    def _divided(cls, device: Device, rows: Rows, height: int) -> int:
        """Depth segments: as many as named, as far as their canvases fit below one another; one
        where the shader blends, front to back."""
        segments = max(1, min(rows.segments, device.max_image // height))
        rows.names["segments"] = segments = 1 if rows.blending.ordered else segments
        if rows.ordering.listed and segments == 1:
            rows.names.pop("state_format", None)  # there is no state between draws
        return segments

    def _target(self) -> TargetFormat:
        return self.rows.target

    def _behind(self) -> tuple[str, int]:
        """The canvas of the farthest depth segment, where there are several images."""
        segments = self._plan.divided
        layered = self.rows.layered(segments)
        return ("layers", (segments - 1) * self.height) if layered else super()._behind()

    def _allocate(self, nbytes: dict[str, int]) -> None:
        super()._allocate(nbytes)
        device, rows, sink = self.device, self.rows, self.projection.sink
        self.segments = self._plan.divided
        self._backward = backward_of(rows, self.width, self.height, self.segments)
        reads_lists = rows.blending.listed or (self.projection.differentiates and sink)
        if reads_lists and isinstance(self._backward, Listed):
            self.lists = self._backward.lists
        if rows.layered(self.segments):
            self._add_image("layers", rows.format, self.segments)
        if self.lists:
            self.pair_capacity = min(self.lists.first_pairs, self._most_pairs())
            self.least_pairs = self.pair_capacity // 4
            self._own |= self.lists.allocate(device, self._capacity, self.pair_capacity)
        if self.projection.differentiates:
            self._own |= self._backward.allocate(device)

    def _possible_pairs(self) -> int:
        return self.lists.possible(self._capacity) if self.lists else 0

    def _most_pairs(self) -> int:
        reach = self.device.max_buffer // contract.itemsize("fragments")
        return min(self._possible_pairs(), reach)

    def _pair_bytes(self, pairs: int, checkpoints: int = 0) -> dict[str, int]:
        return contract.nbytes({"fragments": pairs})

    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None:
        """See Rasterizer. Where fragments are listed, `counts` has their number only after the
        lists, so `rest` gets nothing."""
        run = build_all(self.device, self._passes(picture))
        self.projection.record_forward(recorder, run)
        rest = recorder if self.lists else rest or recorder
        self._record_draw(rest, run, behind=picture == "image")
        if picture == "image":
            self._record_lists(rest)

    def _record_lists(self, recorder: Recorder) -> None:
        """The drawn image, order -> the lists that the backward pass reads."""
        if self.lists and not self.rows.blending.listed:
            self.lists.record(recorder, self.pipelines)

    def _record_draw(
        self, recorder: Recorder, run: Mapping[str, Pipeline], image: str = "", behind: bool = False
    ) -> None:
        """order -> the target of an image of the projection. behind: with what is behind it."""
        size, tall = (self.width, self.height), (self.width, self.height * self.segments)
        if self.rows.blending.listed and self.lists:
            self.lists.record(recorder, run)
            if behind:
                self._record_behind(recorder)
            return
        if "begin forward" in run:
            recorder.run(run[f"begin forward{image}"], threads=size)
        recorder.run(run[f"draw{image}"], indirect="draw", extent=tall)
        if behind:
            self._record_behind(recorder)
        if "resolve" in run:
            recorder.run(run[f"resolve{image}"], threads=size)

    def record_images(self, recorder: Recorder) -> None:
        for image in self.projection.images:
            self._record_draw(recorder, self.pipelines, image)
        self._record_lists(recorder)

    def record_again(self, recorder: Recorder) -> None:
        if self.rows.blending.listed and self.lists:
            self.lists.record_splats(recorder, self.pipelines)
            recorder.run(self.pipelines["draw"], threads=self.lists.blocks)
            self._record_behind(recorder)
        else:
            self._record_draw(recorder, self.pipelines, behind=True)
            if self.lists:
                self.lists.record_splats(recorder, self.pipelines)

    def record_draw_backward(self, recorder: Recorder, score: str = "") -> None:
        self._backward.record(recorder, self.pipelines, f" {score}".rstrip())
