"""What can be shown of splats besides their image.

A picture is drawn by the forward pass of any rasterizer, into the target that it has; how, is the file that fills <alpha> of the draw and the colour of the
splats. A pass of app/hardsplat/raster/show.py then turns the target into RGBA8.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    note: str
    alpha: str = "picture/alpha_gaussian.glsl"  # file that fills <alpha> of the forward draws
    depth: bool = False  # the colour of a splat is (depth, 1, 0)
    value: str | None = None  # file that fills <value>: the number that the palette colours; None: the target has colours
    palette: str = "gray"  # matplotlib's name
    range: tuple[float, float] | None = None  # numbers with the first and last colour of the palette; None: as they come
    formats: tuple[str, ...] = ("unorm8", "unorm16", "float16", "float32")  # targets that can hold it


PICTURES = {
    "image": Picture("colours over the background"),
    "depth": Picture(
        "expected depth sum(w z) / sum(w), z along the axis of the camera",
        depth=True,
        value="picture/value_depth.glsl",
        palette="turbo",
        formats=("float32", "float16"),
    ),
    "alpha": Picture("opacity, 1 - T", value="picture/value_alpha.glsl", range=(0.0, 1.0)),
    "count": Picture(
        "how many splats cover a pixel, with alpha of at least 1/255 there; who draws front to back stops at 2346",
        alpha="picture/alpha_count.glsl",
        value="picture/value_count.glsl",
        palette="inferno",
        formats=("float32",),
    ),
    "outlines": Picture("the edge of every splat, where its alpha is 1/255", alpha="picture/alpha_outline.glsl"),
}
