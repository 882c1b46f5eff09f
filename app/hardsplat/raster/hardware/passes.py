"""The passes of the hardware rasterizer, by the rows that it draws with."""

from __future__ import annotations

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core.projection import Perspective, Projection, for_images
from hardsplat.raster.core.sinks import STORE, Sink
from hardsplat.raster.core.sort import ranking_lanes
from hardsplat.raster.hardware.draws import Blocked, forward_passes
from hardsplat.raster.hardware.listed import FragmentLists, Listed
from hardsplat.raster.hardware.ordered import Ordered
from hardsplat.raster.hardware.rows import HardwareOptions, Rows
from hardsplat.tables.pictures import PICTURES


def backward_of(
    rows: Rows, width: int, height: int, segments: int, sink: Sink | None = None
) -> Listed | Ordered:
    """The way from d_image to d_splats2d for this sink, with its `scores` also those of SCORES."""
    kind = Listed if rows.ordering.listed else Ordered
    how = (sink.scores, sink.rows) if sink else ()
    return kind(rows, width, height, segments, *how)


def all_passes(
    around: Projection, rows: Rows, width: int, height: int, segments: int, picture: str = "image"
) -> list[ComputePass | DrawPass]:
    """Those of a projection, and from splats2d and order to the target; with a sink, to
    d_splats2d."""
    size, drawn = (width, height, segments), PICTURES[picture]
    if rows.blending.listed:
        forward = FragmentLists(rows, *size).passes(drawn)
    else:
        forward = forward_passes(Blocked(rows, *size), drawn)
    if picture == "image":
        forward = for_images(around, forward)
    backward: list[ComputePass | DrawPass] = []
    if around.differentiates and around.sink:
        backward = backward_of(rows, *size, around.sink).passes()
    return [*around.passes(rows.shape.command, picture), *forward, *backward]


def sources(device: Device, options: HardwareOptions) -> set[ShaderSource]:
    """The shaders of a rasterizer with these options, which name every row that matters."""
    rows, around = Rows.first(device, options), Perspective(1, STORE, lanes=ranking_lanes(device))
    passes = all_passes(around, rows, 1, 1, rows.segments)
    return {source for p in passes for source in p.sources()}
