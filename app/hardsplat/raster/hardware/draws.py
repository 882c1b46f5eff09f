"""What draws of splats are made of, and those forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import DepthImage, Image
from hardsplat.gpu.passes.declared import ComputePass, DepthTest, DrawPass, Pipeline
from hardsplat.raster.core.projection import for_score
from hardsplat.raster.core.sinks import SCORES
from hardsplat.raster.hardware.rows import Rows
from hardsplat.tables.formats import TargetFormat
from hardsplat.tables.hardware import OutlineShape
from hardsplat.tables.pictures import PictureMode

_SPLATS = ("splats2d", "colors2d", "order")


@dataclass(frozen=True)
class Blocked:
    """A canvas of width x height px in depth segments, and in blocks of pixels, each drawn by one
    fragment of a backward draw."""

    rows: Rows
    width: int
    height: int
    segments: int

    @property
    def blocks(self) -> tuple[int, int]:
        """Across and down."""
        block = self.rows.block
        return -(-self.width // block.width), -(-self.height // block.height)

    @property
    def spec(self) -> dict[str, int | float]:
        """Constants of what goes block by block."""
        (across, _), block = self.blocks, self.rows.block
        return {"BLOCK_W": block.width, "BLOCK_H": block.height, "BLOCKS_X": across}

    def canvas(self, whole: bool = False) -> dict[str, int | float]:
        """Constants of every draw of splats. whole: on a canvas of whole blocks."""
        (across, down), block, shape = self.blocks, self.rows.block, self.rows.shape
        width, height = self.width, self.height
        if whole:
            width, height = across * block.width, down * block.height
        canvas = {"CANVAS_WIDTH": width, "CANVAS_HEIGHT": height, "SEGMENTS": self.segments}
        corners = {"VERTICES": shape.vertices, "SHAPE": shape.number}
        return {**canvas, "LARGEST": self.rows.format.largest, **corners}


def macros(rows: Rows, format: TargetFormat) -> dict[str, str]:
    """A storage image names its format in the shader; an attachment does not."""
    return {} if rows.ordering.attachment else {"STATE_FORMAT": format.qualifier}


def outline(shape: OutlineShape, shifted: bool = False) -> dict:
    """Returns what a draw of splats takes from their shape. shifted: as of TargetFormat."""
    slots = {"color": "draw/color_shifted.glsl" if shifted else ""}
    parts = {name: getattr(shape.draw, name) for name in ("vertex", "geometry", "topology")}
    return {**parts, "outline": slots, "rectangle": shape.rectangle}


def forward_passes(blocked: Blocked, picture: PictureMode) -> list[ComputePass | DrawPass]:
    """Draws of the blending unit, or of fragments in order."""
    rows, segments = blocked.rows, blocked.segments
    draw = DrawPass(
        **outline(rows.shape),
        name="draw",
        fragment=rows.blending.fragment,
        reads=("counts", *_SPLATS, "target"),
        writes=("target",),
        attachment="target",
        format=rows.format.vk,
        clear=(0.0, 0.0, 0.0, 1.0),
        spec={**blocked.canvas(), "PICTURE": picture.number},
    )
    if not rows.blending.ordered:
        shifted = rows.format.shifted
        spec = {**draw.spec, "BACK_TO_FRONT": True}
        fixed = replace(draw, **outline(rows.shape, shifted), blend=True, spec=spec)
        if not rows.layered(segments):
            return [fixed]
        layers, image = ("layers", "frame"), ("target",)
        put_together = rows.layers(segments)
        resolve = ComputePass("resolve", "draw/resolve.comp", layers, image, put_together)
        reads = (*(("frame",) if shifted else ()), "counts", *_SPLATS, "layers")
        return [replace(fixed, reads=reads, writes=("layers",), attachment="layers"), resolve]
    ordered = replace(
        draw,
        reads=("counts", *_SPLATS, "state"),
        writes=("state",),
        slots={"order": rows.ordering.slot},
        macros=macros(rows, rows.format),
        bind={"state": "target"},
    )
    if rows.ordering.attachment:
        return [replace(ordered, in_order=True)]
    path, bind = "draw/ordered/begin_forward.comp", {"state": "target"}
    begin = ComputePass("begin forward", path, writes=("state",), bind=bind)
    return [begin, replace(ordered, attachment=None, clear=None)]


def sums(rows: Rows) -> tuple[dict[str, str], dict[str, int]]:
    """Slots and constants of a draw that adds to splats."""
    slots = {"reduce": rows.reduction.slot, "atomics": rows.atomics.slot}
    if rows.reduction.quads:
        slots["quads"] = rows.quads.slot
    return slots, {"THRESHOLD": rows.threshold} if "THRESHOLD" in rows.reduction.spec else {}


# Of draws whose fragments of finished blocks do not run.
UNFINISHED = DepthTest("unfinished", "less", writes=False)


def unfinished_draw(
    name: str,
    fragment: str,
    reads: str,
    spec: Mapping[str, int | float],
    slots: Mapping[str, str] = {},
) -> DrawPass:
    """What there is of the blocks of each depth segment in `reads` -> which are still seen, as
    depth, for draws with UNFINISHED."""
    test, written = DepthTest("unfinished", "less or equal", clear=1.0), ("unfinished",)
    return DrawPass(
        name, "draw/canvas.vert", fragment, (reads,), written, depth=test, spec=spec, slots=slots
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


@dataclass(frozen=True)
class Backward(Blocked):
    """A way from d_image to d_splats2d. scores: with draws of SCORES. of_T: d_image has a gradient
    of T too."""

    scores: bool = False
    of_T: bool = False

    def passes(self) -> list[ComputePass | DrawPass]:
        raise NotImplementedError

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        """All that it needs or, with OutOfMemory, nothing."""
        raise NotImplementedError

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """score: the word of a draw of SCORES after a blank."""
        raise NotImplementedError

    def _begin_passes(self, first: int) -> list[ComputePass]:
        """The drawn image, d_image -> D and T of each block of pixels at the beginning of each
        depth segment from `first` on; and the same of scores."""
        begin = ComputePass(
            "begin backward",
            "draw/begin_blocks.comp",
            ("layers", "frame", "d_image"),
            ("blocks", "d_image"),
            {**self.rows.layers(self.segments), "FIRST": first, "OF_T": self.of_T, **self.spec},
            {"state": self.rows.state_format.packing},
            bind=self.rows.layers_bound(self.segments),
        )
        return [begin, *(for_score(begin, name) for name in SCORES if self.scores)]

    def _record_begin(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str) -> None:
        begin = run.get(f"begin backward{score}", run["begin backward"])
        recorder.run(begin, threads=self.blocks)
