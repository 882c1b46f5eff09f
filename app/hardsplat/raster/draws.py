"""What draws of splats are made of, and those forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hardsplat.gpu.context import Device
from hardsplat.gpu.image import DepthImage, Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import ComputePass, DepthTest, DrawPass
from hardsplat.raster.projection import Projection
from hardsplat.variants.blocks import Block
from hardsplat.variants.cells import CELLS, Cells
from hardsplat.variants.formats import Format
from hardsplat.variants.pictures import Picture
from hardsplat.variants.shapes import Shape

if TYPE_CHECKING:
    from hardsplat.raster.rows import Rows


def canvas_of(rows: Rows, width: int, height: int, segments: int) -> dict[str, int | float]:
    """Constants of every draw of splats on a canvas of width x height px."""
    canvas = {"CANVAS_WIDTH": width, "CANVAS_HEIGHT": height, "SEGMENTS": segments, "LARGEST": rows.format.largest}
    return canvas | {"VERTICES": rows.shape.vertices, **rows.shape.spec}


def macros(rows: Rows, format: Format) -> dict[str, str]:
    """A storage image names its format in the shader; an attachment does not."""
    return {} if rows.ordering.attachment else {"STATE_FORMAT": format.qualifier}


def outline(shape: Shape, cells: Cells = CELLS["none"], color: str = "") -> dict:
    """What a draw of splats takes from their shape. cells: in which it takes them. color: file that fills <color>."""
    draw = shape.draw
    return dict(vertex=draw.vertex, geometry=draw.geometry, topology=draw.topology, outline={"shape": shape.slot, "drawn": cells.slot, "color": color}, rectangle=shape.rectangle)


def forward_passes(rows: Rows, canvas: dict, picture: Picture) -> list[ComputePass | DrawPass]:
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
        colors = rows.format.colors
        scale = {"COLOR_SCALE": colors.scale} if colors.scale != 1 else {}
        fixed = replace(draw, **outline(rows.shape, color=colors.slot), blend=True, spec={**canvas, "BACK_TO_FRONT": True, **scale})
        if not rows.layered(int(canvas["SEGMENTS"])):
            return [fixed]
        resolve = ComputePass("resolve", "draw/resolve.comp", reads=("layers", "frame"), writes=("target",), spec=rows.layers(int(canvas["SEGMENTS"])))
        reads = ("counts", *(("frame",) if colors.shifted else ()), "splats2d", "colors2d", "order", "layers")
        return [replace(fixed, reads=reads, writes=("layers",), attachment="layers"), resolve]
    ordered = replace(
        draw,
        reads=("counts", "splats2d", "colors2d", "order", "state"),
        writes=("state",),
        slots={**draw.slots, "order": rows.ordering.slot},
        macros=macros(rows, rows.format),
        bind={"state": "target"},
    )
    if rows.ordering.attachment:
        return [replace(ordered, in_order=True)]
    begin = ComputePass("begin forward", "draw/begin_forward.comp", writes=("state",), bind={"state": "target"})
    return [begin, replace(ordered, attachment=None, clear=None)]


def sums(rows: Rows, threshold: int) -> tuple[dict[str, str], dict[str, int]]:
    """Slots and constants of a draw that adds to splats."""
    slots = {**rows.reduction.slots, "atomics": rows.atomics.slot, **({"quads": rows.quads.slot} if rows.reduction.quads else {})}
    return slots, {"THRESHOLD": threshold} if "THRESHOLD" in rows.reduction.spec else {}


def gather_draws(rows: Rows, canvas: dict, threshold: int, around: Projection) -> list[DrawPass]:
    """One for each pair, of the covers of both perturbed splats, in any order, a fragment for a block."""
    across, down = blocks_of(rows.block, canvas["CANVAS_WIDTH"], canvas["CANVAS_HEIGHT"])
    covered = {"CANVAS_WIDTH": across * rows.block.width, "CANVAS_HEIGHT": down * rows.block.height, "SEGMENTS": 1}
    slots, limit = sums(rows, threshold)
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


def begin_blocks(rows: Rows, width: int, height: int, segments: int, first: int = 0) -> ComputePass:
    """The drawn image, d_image -> D and T of each block of pixels at the beginning of each depth segment from `first` on."""
    spec = {"FIRST": first, "BLOCK_W": rows.block.width, "BLOCK_H": rows.block.height, "BLOCKS_X": blocks_of(rows.block, width, height)[0]}
    reads, state = ("layers", "frame", "d_image"), {"state": rows.state_format.packing}
    return ComputePass("begin backward", "draw/begin_blocks.comp", reads, ("blocks", "d_image"), {**rows.layers(segments), **spec}, state, bind=rows.layers_bound(segments))


UNFINISHED = DepthTest("unfinished", "less", writes=False)  # of draws whose fragments of finished blocks do not run


def unfinished_draw(name: str, fragment: str, reads: str, spec: Mapping[str, int | float], slots: Mapping[str, str] | None = None) -> DrawPass:
    """What there is of the blocks of each depth segment in `reads` -> which are still seen, as depth, for draws with UNFINISHED."""
    test = DepthTest("unfinished", "less or equal", clear=1.0)
    return DrawPass(name=name, vertex="draw/canvas.vert", fragment=fragment, reads=(reads,), writes=("unfinished",), depth=test, spec=spec, slots=slots or {})


def with_unfinished(device: Device, buffers: dict[str, Buffer], across: int, tall: int) -> dict[str, Buffer | Image]:
    """buffers, and a depth image in which finished blocks are rejected. Raises OutOfMemory with nothing allocated, the buffers included."""
    try:
        return {**buffers, "unfinished": DepthImage(device, across, tall, "unfinished")}
    except BaseException:
        for buffer in buffers.values():
            buffer.destroy()
        raise


def blocks_of(block: Block, width: int, height: int) -> tuple[int, int]:
    """How many blocks cover a canvas, across and down."""
    return -(-width // block.width), -(-height // block.height)
