"""What can be shown of splats other than their image.

A picture is drawn by the forward pass of any rasterizer, into the target that it has; how, the
constant PICTURE of the draw and the colour of the splats say, see shaders/picture/pictures.glsl. A
pass of app/hardsplat/raster/pictures.py then turns the target into RGBA8.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PictureMode:
    number: int  # PICTURE in shaders
    note: str
    depth: bool = False  # the colour of a splat is its depth and how that changes over pixels
    front: float = 0.0  # that depth is so many standard deviations along the ray before its middle
    in_order: bool = False  # splats are drawn front to back, which the blending unit does not do
    numbers: bool = False  # pixels are numbers, which the palette colours; else they are colours
    palette: str = "gray"  # matplotlib's name
    # numbers with the first and last colour of the palette; None: as they come
    range: tuple[float, float] | None = None
    formats: tuple[str, ...] = ("unorm8", "unorm16", "float16", "float32")  # that can hold it


# what pictures of splats are drawn over, by --background
BACKGROUNDS = {
    "black": (0.0,) * 3,
    "white": (1.0,) * 3,
    "random": (0.0,) * 3,
    "sphere": (0.0,) * 3,
}  # random: training only; sphere: behind a sky that is drawn with the splats

HALF = math.sqrt(2 * math.log(2))  # exp(-HALF^2 / 2) = 1/2

# fmt: off
PICTURES = {
    "image": PictureMode(0, "colours over the background"),
    "depth": PictureMode(1, "expected depth sum(w z) / sum(w), z along the axis of the camera "
                            "where a pixel's ray passes the middle of a splat",
                         depth=True, numbers=True, palette="turbo", formats=("float32", "float16")),
    "alpha": PictureMode(2, "opacity, 1 - T", numbers=True, range=(0.0, 1.0)),
    "count": PictureMode(3, "how many splats cover a pixel, with alpha of at least 1/255 there; "
                            "who draws front to back stops at 2346",
                         numbers=True, palette="inferno", formats=("float32",)),
    "outlines": PictureMode(4, "the edge of every splat, where its alpha is 1/255"),
    "median": PictureMode(5, "median depth, of the splat behind which less than half of the light "
                             "is left; 0 where there is none", depth=True, numbers=True,
                          palette="turbo", formats=("float32", "float16"), in_order=True),
    "surface": PictureMode(5, "median depth where the ray has half of that splat's opacity, before "
                              "its middle", depth=True, front=HALF, numbers=True,
                           palette="turbo", formats=("float32", "float16"), in_order=True),
}
ANYWHERE = tuple(name for name, row in PICTURES.items() if not row.in_order)
