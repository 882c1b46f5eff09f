"""Choices of the hardware rasterizer: order of fragments, blending, blocks, full quads,
outlines."""

from dataclasses import dataclass

# How the fragments of a pixel come in order: those that wait for each other fill <order>; others
# are listed, and put in order after the draw.


@dataclass(frozen=True)
class Ordering:
    slot: str  # "" where fragments are listed
    attachment: bool  # the state is the draw's attachment, else a storage image
    section: str  # file that fills <section> of a draw of blocks
    section_needs: tuple[str, ...]  # for that
    needs: tuple[str, ...]
    note: str

    @property
    def listed(self) -> bool:
        return not self.slot


# fmt: off
ORDERINGS = {
    "lists": Ordering(
        slot="", attachment=False, section="", section_needs=(), needs=(),
        note="on every device: fragments go into lists by block of pixels, which a compute "
        "pass sorts (Carpenter 1984; Yang et al. 2010)"),
    "interlock": Ordering(
        slot="draw/ordered/order_interlock.glsl", attachment=False,
        section="draw/ordered/section_interlock.glsl", section_needs=(), needs=("interlock",),
        note="critical section in the fragment shader (VK_EXT_fragment_shader_interlock)"),
    "raster_order": Ordering(
        slot="draw/ordered/order_raster.glsl", attachment=True,
        section="draw/ordered/section_sequential.glsl", section_needs=("sequential",),
        needs=("raster_order",),
        note="attachment read in draw order (VK_EXT_rasterization_order_attachment_access)"),
}
# fmt: on


# How the forward draw blends.


@dataclass(frozen=True)
class Blending:
    fragment: str
    ordered: bool  # blends in a shader, front to back; else in fixed function, back to front
    needs: tuple[str, ...]
    note: str
    listed: bool = False  # in a compute shader, through lists of fragments; else through <order>
    # rows of BLOCKS and REDUCTIONS that `auto` begins with, the fastest of a backward draw on an
    # H200
    block: str = "2x2"
    reduction: str = "hybrid"

    def goes_with(self, ordering: Ordering) -> bool:
        return not self.ordered or self.listed == ordering.listed


# fmt: off
BLENDINGS = {
    "fixed": Blending("draw/forward_fixed.frag", False, (),
                      "the blending unit, back to front; every splat is blended"),
    "programmable": Blending("draw/ordered/forward_programmable.frag", True, (),
                             "in the shader, front to back; finished pixels take no more splats"),
    "lists": Blending("draw/lists/blend.comp", True, (),
                      "in float32 from lists of fragments, front to back, whatever the format; "
                      "with --ordering lists", listed=True, block="4x2", reduction="atomic"),
}
# fmt: on


# How many pixels one fragment of the backward draw covers.


@dataclass(frozen=True)
class Block:
    width: int
    height: int
    needs: tuple[str, ...]  # besides the section_needs of the ordering
    note: str

    @property
    def pixels(self) -> int:
        return self.width * self.height


# fmt: off
BLOCKS = {
    "2x2": Block(2, 2, (), "four pixels a fragment, summed in registers, ordered once; with lists, "
                           "interlock, or on a CPU"),
    "4x2": Block(4, 2, (), "eight pixels a fragment: where compute is worth more than drawing"),
    "1x1": Block(1, 1, (), "a fragment a pixel (as published)"),
}
# fmt: on


# Whether the backward draw requests full quads: files that fill <quads>.


@dataclass(frozen=True)
class Quads:
    slot: str
    needs: tuple[str, ...]
    note: str


# fmt: off
QUADS = {
    "full": Quads("reduce/quads_full.glsl", ("quad_control", "maximal_reconvergence"),
                  "full quads and reconvergence by declaration"),
    "plain": Quads("reduce/quads_plain.glsl", (), "as the device does it"),
}
# fmt: on


# How a splat becomes primitives for the rasterizer: shapes of its proxy geometry, and the draw that
# issues them.
#
# Every shape holds all pixel centres of the ellipse alpha >= 1/255, and the fragment decides: the
# image is the same.


@dataclass(frozen=True)
class OutlineShape:
    number: int  # SHAPE in shaders/draw/shape.glsl
    vertices: int  # of the proxy geometry
    needs: tuple[str, ...]
    note: str
    rectangle: bool = False  # a triangle fills its bounding box
    expanded: bool = False  # out of points, by a geometry shader

    @property
    def draw(self) -> dict[str, str]:
        """What makes the vertices, fields of a DrawPass."""
        if self.expanded:
            points = {"vertex": "draw/points.vert", "topology": "points"}
            return points | {"geometry": "draw/splat.geom"}
        return {"vertex": "draw/splat.vert"}

    @property
    def command(self) -> dict[str, int]:
        """What the sort writes into `indirect.draw`, constants of sort/scatter.comp."""
        return {"DRAW_VERTICES": 1 if self.expanded else self.vertices}


# fmt: off
SHAPES = {
    "rectangle": OutlineShape(0, 3, ("fill_rectangle",),
                       "axis-aligned box, one primitive: the fastest where it runs",
                       rectangle=True),
    "quad": OutlineShape(1, 6, (), "oriented box, two triangles"),
    "triangle": OutlineShape(
        2, 3, (), "one triangle around the ellipse: 30 % more area than the quad, no diagonal"),
    "geometry": OutlineShape(3, 4, ("geometry_shader",),
                      "oriented box, a strip out of a geometry shader (as published)",
                      expanded=True),
}
