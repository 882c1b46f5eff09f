"""The passes of the hardware rasterizer: draws of quads forward and backward, and what stands between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hardsplat.gpu.passes import ComputePass, DrawPass
from hardsplat.raster.projection import Perspective, Projection, for_images
from hardsplat.raster.sinks import Sink
from hardsplat.variants.blocks import Block
from hardsplat.variants.formats import Format
from hardsplat.variants.pictures import PICTURES, Picture
from hardsplat.variants.shapes import Shape

if TYPE_CHECKING:
    from hardsplat.raster.hardware import Rows


def passes(
    rows: Rows, width: int, height: int, sh_planes: int, sink: Sink | None, threshold: int = 16, segments: int = 1, antialiased: bool = False, picture: str = "image"
) -> list[ComputePass | DrawPass]:
    """Every pass of a frame of 3D splats, forward and, unless the sink is None, backward, on a canvas of width x height px."""
    return all_passes(Perspective(sh_planes, sink, antialiased), rows, width, height, threshold, segments, picture)


def all_passes(around: Projection, rows: Rows, width: int, height: int, threshold: int, segments: int, picture: str = "image") -> list[ComputePass | DrawPass]:
    """Those of a projection, and from splats2d and order to the target; with a sink, to d_splats2d."""
    canvas = {"CANVAS_WIDTH": width, "CANVAS_HEIGHT": height, "SEGMENTS": segments, "LARGEST": rows.format.largest}
    canvas |= {"VERTICES": rows.shape.vertices, **rows.shape.spec}
    forward = _forward_passes(rows, canvas, PICTURES[picture])
    if picture == "image":
        forward = for_images(around, forward)
    backward = _backward_passes(rows, canvas, threshold) if around.differentiates else []
    gather = _gather_draws(rows, canvas, threshold, around) if rows.gather and rows.gather.draws else around.gather_passes()
    return [*around.passes(rows.shape.command, picture), *forward, *backward, *gather]


def _macros(rows: Rows, format: Format) -> dict[str, str]:
    """A storage image names its format in the shader; an attachment does not."""
    return {} if rows.ordering.attachment else {"STATE_FORMAT": format.qualifier}


def outline(shape: Shape) -> dict:
    """What a draw of splats takes from their shape."""
    draw = shape.draw
    return dict(vertex=draw.vertex, geometry=draw.geometry, topology=draw.topology, outline={"shape": shape.slot}, rectangle=shape.rectangle)


def _forward_passes(rows: Rows, canvas: dict, picture: Picture) -> list[ComputePass | DrawPass]:
    draw = DrawPass(
        **outline(rows.shape),
        name="draw",
        fragment=rows.blending.fragment,
        reads=("counts", "splats2d", "colors2d", "order", "target"),
        writes=("target",),
        attachment="target",
        format=rows.format.vk,
        clear=(0.0, 0.0, 0.0, 1.0),
        spec=canvas,
        slots={"alpha": picture.alpha},
    )
    if not rows.blending.ordered:
        fixed = replace(draw, blend=True, spec={**canvas, "BACK_TO_FRONT": True})
        if canvas["SEGMENTS"] == 1:
            return [fixed]
        resolve = ComputePass("resolve", "draw/resolve.comp", reads=("layers",), writes=("target",), spec={"SEGMENTS": canvas["SEGMENTS"]})
        return [replace(fixed, reads=("counts", "splats2d", "colors2d", "order", "layers"), writes=("layers",), attachment="layers"), resolve]
    ordered = replace(
        draw,
        reads=("counts", "splats2d", "colors2d", "order", "state"),
        writes=("state",),
        slots={**draw.slots, "order": rows.ordering.slot},
        macros=_macros(rows, rows.format),
        bind={"state": "target"},
    )
    if rows.ordering.attachment:
        return [replace(ordered, in_order=True)]
    begin = ComputePass("begin forward", "draw/begin_forward.comp", writes=("state",), bind={"state": "target"})
    return [begin, replace(ordered, attachment=None, clear=None)]


def _sums(rows: Rows, threshold: int) -> tuple[dict[str, str], dict[str, int]]:
    """Slots and constants of a draw that adds to splats."""
    slots = {**rows.reduction.slots, "atomics": rows.atomics.slot, **({"quads": rows.quads.slot} if rows.reduction.quads else {})}
    return slots, {"THRESHOLD": threshold} if "THRESHOLD" in rows.reduction.spec else {}


def _gather_draws(rows: Rows, canvas: dict, threshold: int, around: Projection) -> list[DrawPass]:
    """One for each pair, of the covers of both perturbed splats, in any order, a fragment for a block."""
    across, down = blocks_of(rows.block, canvas["CANVAS_WIDTH"], canvas["CANVAS_HEIGHT"])
    covered = {"CANVAS_WIDTH": across * rows.block.width, "CANVAS_HEIGHT": down * rows.block.height, "SEGMENTS": 1}
    slots, limit = _sums(rows, threshold)
    draw = DrawPass(
        **outline(rows.shape),
        name="gather",
        fragment="gather/draw.frag",
        reads=("counts", "camera", "splats2d", "colors2d", "order", "loss_differences", "d_splats2d"),
        writes=("d_splats2d",),
        spec={**canvas, **covered, **limit, "BLOCK_W": rows.block.width, "BLOCK_H": rows.block.height},
        slots=slots,
        bind={"d_splats2d": "splat_differences"},
    )
    covers = replace(around.image(draw, " cover"), name=draw.name)
    return [replace(covers, name=f"gather {pair}", spec={**draw.spec, "PAIR": pair}) for pair in range(around.pairs)]


def _backward_passes(rows: Rows, canvas: dict, threshold: int) -> list[ComputePass | DrawPass]:
    slots, limit = _sums(rows, threshold)
    draw = DrawPass(
        **outline(rows.shape),
        name="draw backward",
        fragment="draw/backward.frag",
        reads=("counts", "splats2d", "colors2d", "order", "d_image", "state", "d_splats2d"),
        writes=("state", "d_splats2d"),
        attachment="state" if rows.ordering.attachment else None,
        format=rows.state_format.vk,
        in_order=rows.ordering.attachment,
        spec={**canvas, **limit},
        slots={**slots, "order": rows.ordering.slot},
        macros=_macros(rows, rows.state_format),
    )
    segments, layers = {"SEGMENTS": canvas["SEGMENTS"]}, {} if canvas["SEGMENTS"] > 1 else {"layers": "target"}
    if rows.block.pixels == 1:
        return [ComputePass("begin backward", "draw/begin_backward.comp", reads=("layers", "frame"), writes=("state",), spec=segments, bind=layers), draw]
    across, down = blocks_of(rows.block, canvas["CANVAS_WIDTH"], canvas["CANVAS_HEIGHT"])
    spec = {"BLOCK_W": rows.block.width, "BLOCK_H": rows.block.height, "BLOCKS_X": across}
    state = {"state": rows.state_format.packing}
    reads = ("layers", "frame", "d_image")
    begin = ComputePass("begin backward", "draw/begin_blocks.comp", reads, ("blocks", "d_image"), {**segments, **spec}, state, bind=layers)
    covered = {"CANVAS_WIDTH": across * rows.block.width, "CANVAS_HEIGHT": down * rows.block.height}
    blocks = replace(
        draw,
        fragment="draw/backward_blocks.frag",
        reads=("counts", "splats2d", "colors2d", "order", "d_image", "blocks", "d_splats2d"),
        writes=("blocks", "d_splats2d"),
        attachment=None,
        in_order=False,
        spec={**draw.spec, **covered, **spec},
        slots={**slots, **state, "section": rows.ordering.section},
        macros={},
    )
    return [begin, blocks]


def blocks_of(block: Block, width: int, height: int) -> tuple[int, int]:
    """How many blocks cover a canvas, across and down."""
    return -(-width // block.width), -(-height // block.height)
