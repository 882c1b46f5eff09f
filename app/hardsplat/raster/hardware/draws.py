"""Draws of splats: those forward, and exact gradients by fragments in order or in any.

In order: a draw front to back takes the finished image apart (Yuan & He 2025, arXiv 2505.18764). In
any: a draw lists them by block of pixels, a compute pass sorts the lists, and another goes through
them.

The A-buffer: Carpenter, "The A-buffer, an antialiased hidden surface method" (SIGGRAPH 1984); lists
that a draw links by atomics: Yang et al., "Real-time concurrent linked list construction on the
GPU" (EGSR 2010). An image that was blended in depth segments says which blocks are finished, so
that their fragments are rejected, and where D and T of a segment begin
(shaders/draw/ordered/backward_blocks.frag). With `--blending lists` there is no blended image: the
lists have all fragments, and make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.contract.footprint import Need
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import DepthImage, Image
from hardsplat.gpu.memory.resources import allocate_all, destroy_all
from hardsplat.gpu.passes.declared import ComputePass, DepthTest, DrawPass, Pipeline
from hardsplat.raster.core.projection import for_score, scored
from hardsplat.raster.core.sinks import SCORES
from hardsplat.raster.hardware.rows import Rows
from hardsplat.tables.formats import TargetFormat
from hardsplat.tables.gradients import REDUCTIONS
from hardsplat.tables.hardware import QUADS, OutlineShape
from hardsplat.tables.pictures import PICTURES, PictureMode

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
    return {**shape.draw, "outline": slots, "rectangle": shape.rectangle}


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
    return slots, {"THRESHOLD": rows.threshold} if rows.reduction.threshold else {}


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


# Fragments of a block that fit before frames have shown how many there are; and of all of them.
FIRST_PER_BLOCK, MOST_FIRST = 128, 1 << 24
# Of a splat, packed, and for 8 fragments: bonsai_7k has 6.6 of 4x2 pixels.
FRAGMENTS = Need(64.0 + 48.0, 64.0)
_QUAD = REDUCTIONS["quad"]
PACKED = ("tile_splats", "tile_reaches")  # visible splats in order of depth


@dataclass(frozen=True)
class FragmentLists(Blocked):
    """A list for each block of each depth segment."""

    @property
    def spec(self) -> dict[str, int | float]:
        return {**super().spec, "BLOCKS_Y": self.blocks[1]}

    @property
    def blends(self) -> bool:
        """Whether the image is made of the lists; else it is there before them, and says which
        blocks are finished."""
        return self.rows.blending.listed

    def passes(self, picture: PictureMode = PICTURES["image"]) -> list[ComputePass | DrawPass]:
        """order, splats2d, and the drawn image or what is to become it -> fragment_lists,
        fragments."""
        rows, lists = self.rows, ("fragment_lists", "fragments")
        begin = ComputePass(
            "list begin",
            "draw/lists/begin.comp",
            ("counts", "layers", "frame"),
            ("counts", "fragment_lists"),
            {**self.spec, **rows.layers(self.segments)},
            bind=rows.layers_bound(self.segments),
        )
        pack = ComputePass(
            "list splats",
            "draw/lists/pack.comp",
            ("counts", "order", "splats2d", "colors2d"),
            PACKED,
            {"LARGEST": rows.format.largest},
        )
        size = {"WIDTH": self.width, "HEIGHT": self.height, "RANKED": True}
        append = DrawPass(
            **outline(rows.shape),
            name="list fragments",
            fragment="draw/lists/append.frag",
            reads=("counts", "splats2d", "colors2d", "order", "fragment_lists"),
            writes=("counts", *lists),
            spec={**self.canvas(whole=True), **self.spec, **size},
            slots={"claim": "draw/lists/claim_together.glsl" if _together(rows) else ""},
        )
        spec = {**self.spec, "SEGMENTS": self.segments}
        sort = ComputePass("list sort", "draw/lists/sort.comp", lists, lists, spec)
        if self.blends:
            reads, spec = (*PACKED, *lists), {**self.spec, "PICTURE": picture.number}
            draw = ComputePass("draw", rows.blending.fragment, reads, ("target",), spec)
            return [begin, pack, append, sort, draw]
        least = {"LEAST": rows.least_transmittance}
        unfinished = unfinished_draw(
            "list unfinished", "draw/lists/unfinished.frag", lists[0], {**self.spec, **least}
        )
        spec = {**append.spec, **least}
        append = replace(append, reads=(*append.reads, "unfinished"), depth=UNFINISHED, spec=spec)
        return [begin, pack, unfinished, append, sort]

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        across, down = self.blocks
        tall = (across, down * self.segments)
        # before what the draw reads: a barrier between compute passes shows nothing to draws
        self.record_splats(recorder, run)
        recorder.run(run["list begin"], threads=(across, down))
        if not self.blends:
            recorder.run(run["list unfinished"], threads=(3,), extent=tall)
        recorder.run(run["list fragments"], indirect="draw", extent=tall)
        recorder.run(run["list sort"], threads=tall)
        if self.blends:
            recorder.run(run["draw"], threads=(across, down))

    def record_splats(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """splats2d, colors2d, order -> the splats that lists lead to."""
        recorder.run(run["list splats"], indirect="visible_groups")

    def allocate(self, device: Device, splats: int, fragments: int) -> dict[str, Buffer | Image]:
        """For so many splats and fragments. Raises OutOfMemory with nothing allocated."""
        across, down = self.blocks
        sizes = {"fragment_lists": self.segments * across * down, "fragments": fragments}
        sizes |= dict.fromkeys(PACKED, splats)
        buffers = allocate_all(device, contract.nbytes(sizes))
        if self.blends:
            return {**buffers}
        with undone(partial(destroy_all, buffers)):
            rejected = DepthImage(device, across, down * self.segments, "unfinished")
            return {**buffers, "unfinished": rejected}

    @property
    def first_pairs(self) -> int:
        """Fragments that fit before frames have shown how many there are."""
        across, down = self.blocks
        return min(FIRST_PER_BLOCK * across * down, MOST_FIRST)

    def possible(self, splats: int) -> int:
        """Fragments of so many splats at most."""
        across, down = self.blocks
        return splats * across * down


@dataclass(frozen=True)
class Listed(Backward):
    """Draws that list fragments, on a canvas of width x height px."""

    @property
    def lists(self) -> FragmentLists:
        return FragmentLists(self.rows, self.width, self.height, self.segments)

    def passes(self) -> list[ComputePass | DrawPass]:
        rows = self.rows
        slots, limit = sums(rows)
        if rows.reduction == _QUAD:
            slots |= {"reduce": "draw/lists/sum_quad.glsl", "quads": ""}
            slots["turn"] = "draw/lists/turn_quad.glsl"
        elif _together(rows):
            slots["turn"] = "draw/lists/turn_together.glsl"
            slots["quads"] = QUADS["plain"].slot if rows.reduction.quads else ""
        walk = ComputePass(
            "draw backward",
            "draw/lists/walk.comp",
            (*PACKED, "d_image", "blocks", "fragment_lists", "fragments", "d_splats2d"),
            ("d_splats2d",),
            {**self.lists.spec, **limit, "SEGMENTS": self.segments, "OF_T": self.of_T},
            {**slots, "state": rows.state_format.packing},
        )
        lists = [] if self.lists.blends else self.lists.passes()
        return [*lists, *self._begin_passes(first=1), *scored(walk, self.scores)]

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        (across, down), packed = self.blocks, self.rows.state_format.packed
        vectors = -(-self.rows.block.pixels * packed // 16) * across * down * (self.segments - 1)
        return {"blocks": Buffer(device, 16 * max(vectors, 1), "blocks")}

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, the forward draw's target or layers, the lists -> d_splats2d."""
        across, down = self.blocks
        self._record_begin(recorder, run, score)
        recorder.run(run[f"draw backward{score}"], threads=(across, down * self.segments))


def _together(rows: Rows) -> bool:
    """Whether a whole subgroup works together, which it does where sums are taken over it."""
    return bool(rows.reduction.needs) and rows.reduction != _QUAD


@dataclass(frozen=True)
class Ordered(Backward):
    """Draws of ordered fragments, on a canvas of width x height px."""

    @property
    def _rejects(self) -> bool:
        """Whether segments leave blocks out that those in front of them have finished."""
        return self.segments > 1 and self.rows.block.pixels > 1

    def passes(self) -> list[ComputePass | DrawPass]:
        rows, (slots, limit) = self.rows, sums(self.rows)
        splats = ("counts", "splats2d", "colors2d", "order", "d_image")
        draw = DrawPass(
            **outline(rows.shape),
            name="draw backward",
            fragment="draw/ordered/backward.frag",
            reads=(*splats, "state", "d_splats2d"),
            writes=("state", "d_splats2d"),
            attachment="state" if rows.ordering.attachment else None,
            format=rows.state_format.vk,
            in_order=rows.ordering.attachment,
            spec={**self.canvas(), **limit},
            slots={**slots, "order": rows.ordering.slot},
            macros=macros(rows, rows.state_format),
        )
        if rows.block.pixels == 1:
            begin = ComputePass(
                "begin backward",
                "draw/ordered/begin_backward.comp",
                ("layers", "frame"),
                ("state",),
                rows.layers(self.segments),
                bind=rows.layers_bound(self.segments),
            )
            return [begin, *scored(draw, self.scores)]
        state, begins = {"state": rows.state_format.packing}, self._begin_passes(first=0)
        blocks = replace(
            draw,
            fragment="draw/ordered/backward_blocks.frag",
            reads=(*splats, "blocks", "d_splats2d"),
            writes=("blocks", "d_splats2d"),
            attachment=None,
            in_order=False,
            spec={**draw.spec, **self.canvas(whole=True), **self.spec, "OF_T": self.of_T},
            slots={**slots, **state, "section": rows.ordering.section},
            macros={},
        )
        if not self._rejects:
            return [*begins, *scored(blocks, self.scores)]
        least = {"LEAST": rows.least_transmittance}
        name, fragment = "begin backward unfinished", "draw/ordered/unfinished.frag"
        unfinished = unfinished_draw(name, fragment, "blocks", {**self.spec, **least}, state)
        reads, spec = (*blocks.reads, "unfinished"), {**blocks.spec, **least}
        blocks = replace(blocks, reads=reads, depth=UNFINISHED, spec=spec)
        return [*begins, unfinished, *scored(blocks, self.scores)]

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        format, tall = self.rows.state_format, self.height * self.segments
        if self.rows.block.pixels == 1:
            image = Image(device, self.width, tall, format.vk, format.texel, "state")
            return {"state": image}
        (across, down), pixels = self.blocks, self.segments * self.rows.block.pixels
        blocks = Buffer(device, across * down * pixels * format.packed, "blocks")
        if not self._rejects:
            return {"blocks": blocks}
        with undone(blocks.destroy):
            rejected = DepthImage(device, across, down * self.segments, "unfinished")
            return {"blocks": blocks, "unfinished": rejected}

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, the forward draw's target or layers, order -> d_splats2d."""
        across, down = self.blocks
        tall = down * self.segments
        self._record_begin(recorder, run, score)
        if self._rejects:
            unfinished = run["begin backward unfinished"]
            recorder.run(unfinished, threads=(3,), extent=(across, tall))
        recorder.run(run[f"draw backward{score}"], indirect="draw", extent=(across, tall))
