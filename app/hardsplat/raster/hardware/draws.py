"""What draws of splats are made of, and those forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import DepthImage, Image
from hardsplat.gpu.passes.declared import ComputePass, DepthTest, DrawPass
from hardsplat.tables.formats import TargetFormat
from hardsplat.tables.hardware import Block, Shape
from hardsplat.tables.pictures import PictureMode

if TYPE_CHECKING:
    from hardsplat.raster.hardware.rows import Rows


def canvas_of(rows: Rows, width: int, height: int, segments: int) -> dict[str, int | float]:
    """Constants of every draw of splats on a canvas of width x height px."""
    canvas = {"CANVAS_WIDTH": width, "CANVAS_HEIGHT": height, "SEGMENTS": segments}
    shape = {"VERTICES": rows.shape.vertices, "SHAPE": rows.shape.number}
    return {**canvas, "LARGEST": rows.format.largest, **shape}


def macros(rows: Rows, format: TargetFormat) -> dict[str, str]:
    """A storage image names its format in the shader; an attachment does not."""
    return {} if rows.ordering.attachment else {"STATE_FORMAT": format.qualifier}


def outline(shape: Shape, shifted: bool = False) -> dict:
    """Returns what a draw of splats takes from their shape. shifted: as of TargetFormat."""
    slots = {"color": "draw/color_shifted.glsl" if shifted else ""}
    draw, rectangle = shape.draw, shape.rectangle
    return dict(
        vertex=draw.vertex,
        geometry=draw.geometry,
        topology=draw.topology,
        outline=slots,
        rectangle=rectangle,
    )


def forward_passes(rows: Rows, canvas: dict, picture: PictureMode) -> list[ComputePass | DrawPass]:
    draw = DrawPass(
        **outline(rows.shape),
        name="draw",
        fragment=rows.blending.fragment,
        reads=("counts", "splats2d", "colors2d", "order", "target"),
        writes=("target",),
        attachment="target",
        format=rows.format.vk,
        clear=(0.0, 0.0, 0.0, 1.0),
        spec={**canvas, "PICTURE": picture.number},
    )
    if not rows.blending.ordered:
        shifted = rows.format.shifted
        fixed = replace(
            draw,
            **outline(rows.shape, shifted),
            blend=True,
            spec={**draw.spec, "BACK_TO_FRONT": True},
        )
        if not rows.layered(int(canvas["SEGMENTS"])):
            return [fixed]
        resolve = ComputePass(
            "resolve",
            "draw/resolve.comp",
            reads=("layers", "frame"),
            writes=("target",),
            spec=rows.layers(int(canvas["SEGMENTS"])),
        )
        reads = (
            "counts",
            *(("frame",) if shifted else ()),
            "splats2d",
            "colors2d",
            "order",
            "layers",
        )
        return [replace(fixed, reads=reads, writes=("layers",), attachment="layers"), resolve]
    ordered = replace(
        draw,
        reads=("counts", "splats2d", "colors2d", "order", "state"),
        writes=("state",),
        slots={"order": rows.ordering.slot},
        macros=macros(rows, rows.format),
        bind={"state": "target"},
    )
    if rows.ordering.attachment:
        return [replace(ordered, in_order=True)]
    begin = ComputePass(
        "begin forward",
        "draw/ordered/begin_forward.comp",
        writes=("state",),
        bind={"state": "target"},
    )
    return [begin, replace(ordered, attachment=None, clear=None)]


def sums(rows: Rows, threshold: int) -> tuple[dict[str, str], dict[str, int]]:
    """Slots and constants of a draw that adds to splats."""
    slots = {
        "reduce": rows.reduction.slot,
        "atomics": rows.atomics.slot,
        **({"quads": rows.quads.slot} if rows.reduction.quads else {}),
    }
    return slots, {"THRESHOLD": threshold} if "THRESHOLD" in rows.reduction.spec else {}


def begin_blocks(rows: Rows, width: int, height: int, segments: int, first: int = 0) -> ComputePass:
    """The drawn image, d_image -> D and T of each block of pixels at the beginning of each depth
    segment from `first` on."""
    spec = {
        "FIRST": first,
        "BLOCK_W": rows.block.width,
        "BLOCK_H": rows.block.height,
        "BLOCKS_X": blocks_of(rows.block, width, height)[0],
    }
    reads, state = ("layers", "frame", "d_image"), {"state": rows.state_format.packing}
    return ComputePass(
        "begin backward",
        "draw/begin_blocks.comp",
        reads,
        ("blocks", "d_image"),
        {**rows.layers(segments), **spec},
        state,
        bind=rows.layers_bound(segments),
    )


UNFINISHED = DepthTest(
    "unfinished", "less", writes=False
)  # of draws whose fragments of finished blocks do not run


def unfinished_draw(
    name: str,
    fragment: str,
    reads: str,
    spec: Mapping[str, int | float],
    slots: Mapping[str, str] | None = None,
) -> DrawPass:
    """What there is of the blocks of each depth segment in `reads` -> which are still seen, as
    depth, for draws with UNFINISHED."""
    test = DepthTest("unfinished", "less or equal", clear=1.0)
    return DrawPass(
        name=name,
        vertex="draw/canvas.vert",
        fragment=fragment,
        reads=(reads,),
        writes=("unfinished",),
        depth=test,
        spec=spec,
        slots=slots or {},
    )


def with_unfinished(
    device: Device, buffers: dict[str, Buffer], across: int, tall: int
) -> dict[str, Buffer | Image]:
    """buffers, and a depth image in which finished blocks are rejected. Raises OutOfMemory with
    nothing allocated, the buffers included."""
    try:
        return {**buffers, "unfinished": DepthImage(device, across, tall, "unfinished")}
    except BaseException:
        for buffer in buffers.values():
            buffer.destroy()
        raise


def blocks_of(block: Block, width: int, height: int) -> tuple[int, int]:
    """How many blocks cover a canvas, across and down."""
    return -(-width // block.width), -(-height // block.height)
