"""The passes of the hardware rasterizer, by the rows that it draws with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core.projection import Perspective, for_images
from hardsplat.raster.core.protocols import Projection
from hardsplat.raster.core.sinks import STORE
from hardsplat.raster.core.sort import ranking_lanes
from hardsplat.raster.hardware.draws import canvas_of, forward_passes
from hardsplat.raster.hardware.listed import FragmentLists, Listed
from hardsplat.raster.hardware.ordered import Ordered
from hardsplat.raster.hardware.rows import HardwareOptions, Rows
from hardsplat.tables.pictures import PICTURES


class Backward(Protocol):
    """A way from d_image to d_splats2d."""

    @property
    def lists(self) -> FragmentLists | None: ...  # that it goes by

    def passes(self) -> list[ComputePass | DrawPass]: ...
    def allocate(
        self, device: Device
    ) -> Mapping[str, Buffer | Image]: ...  # all that it needs or, with OutOfMemory, nothing
    def record(
        self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = ""
    ) -> None: ...  # score: the word of a draw of SCORES


def backward_of(
    rows: Rows, width: int, height: int, segments: int, threshold: int, scores: bool = False
) -> Backward:
    """The way from d_image to d_splats2d, with `scores` also those of SCORES."""
    return (Listed if rows.ordering.listed else Ordered)(
        rows, width, height, segments, threshold, scores
    )


def all_passes(
    around: Projection,
    rows: Rows,
    width: int,
    height: int,
    threshold: int,
    segments: int,
    picture: str = "image",
) -> list[ComputePass | DrawPass]:
    """Those of a projection, and from splats2d and order to the target; with a sink, to
    d_splats2d."""
    canvas = canvas_of(rows, width, height, segments)
    drawn = PICTURES[picture]
    forward = (
        FragmentLists(rows, width, height, segments).passes(drawn)
        if rows.blending.listed
        else forward_passes(rows, canvas, drawn)
    )
    if picture == "image":
        forward = for_images(around, forward)
    backward = (
        backward_of(rows, width, height, segments, threshold, around.sink.scores).passes()
        if around.differentiates and around.sink
        else []
    )
    return [*around.passes(rows.shape.command, picture), *forward, *backward]


def segments_of(device: Device, rows: Rows, wanted: int, height: int) -> int:
    """How many depth segments are drawn: those wanted, as far as their canvases fit below one
    another; one where the shader blends, front to back."""
    return 1 if rows.blending.ordered else max(1, min(wanted, device.max_image // height))


def sources(device: Device, options: HardwareOptions) -> set[ShaderSource]:
    """The shaders of a rasterizer with these options, which name every row that matters."""
    rows = Rows.first(device, options)
    return {
        source
        for p in all_passes(
            Perspective(1, STORE, lanes=ranking_lanes(device)), rows, 1, 1, 1, rows.segments
        )
        for source in p.sources()
    }
