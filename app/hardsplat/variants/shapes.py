"""How a splat becomes primitives for the rasterizer: shapes of its outline, and the draw that issues them.

Every shape holds all pixel centres of the ellipse alpha >= 1/255, and the fragment decides: the image is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Draw:
    """What makes the vertices, and what the sort writes into `indirect.draw` (spec constants of sort/scatter.comp)."""

    vertex: str = "draw/splat.vert"
    geometry: str | None = None
    topology: str = "triangles"
    command: Mapping[str, int] = field(default_factory=dict)


LIST = Draw()
POINTS = Draw("draw/points.vert", "draw/splat.geom", "points", {"DRAW_VERTICES": 1})


@dataclass(frozen=True)
class Shape:
    number: int  # SHAPE in shaders/draw/shape.glsl
    vertices: int  # of the outline
    needs: tuple[str, ...]
    note: str
    draw: Draw = LIST
    rectangle: bool = False  # a triangle fills its bounding box

    @property
    def command(self) -> dict[str, int]:
        return {"DRAW_VERTICES": self.vertices, **self.draw.command}


SHAPES = {
    "rectangle": Shape(0, 3, ("fill_rectangle",), "axis-aligned box, one primitive: the fastest where it runs", rectangle=True),
    "quad": Shape(1, 6, (), "oriented box, two triangles"),
    "triangle": Shape(2, 3, (), "one triangle around the ellipse: 30 % more area than the quad, no diagonal"),
    "geometry": Shape(3, 4, ("geometry_shader",), "oriented box, a strip out of a geometry shader (as published)", POINTS),
}
