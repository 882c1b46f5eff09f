"""How an image fit draws its 2D Gaussians: on a rasterizer of app/hardsplat/raster, or by tiles
that each look at every blob (files that fill <walk>)."""

from dataclasses import dataclass

from hardsplat.tables.gradients import REDUCTIONS, TILE_BACKWARDS


@dataclass(frozen=True)
class FitRaster:
    backend: str  # of app/hardsplat/fit/raster.py: tiled, hardware, or walk
    # that sum its gradients, of REDUCTIONS or TILE_BACKWARDS; the first is the default
    reductions: tuple[str, ...]
    needs: tuple[str, ...]
    note: str
    walk: str = ""  # file that fills <walk>; none for what app/hardsplat/raster draws
    by_subgroup: bool = False  # a tile is the pixels of a subgroup, else of a workgroup


# By pixel, and a whole tile at a time: what a walk's nine sums can be given to.
_WALKED = tuple(name for name, row in TILE_BACKWARDS.items() if row.slots and not row.gathers)

# fmt: off
FIT_RASTERS = {
    "binned": FitRaster(
        "tiled", tuple(TILE_BACKWARDS), ("subgroup_tiles",), "blobs listed by tile of 16x16 pixels "
        "once a step: the tiled rasterizer without its depth sort"),
    "hardware": FitRaster(
        "hardware", ("auto", *REDUCTIONS), (),
        "quads through the graphics pipeline: the hardware rasterizer without its depth sort"),
    "balloted": FitRaster(
        "walk", _WALKED, ("subgroup_tiles",), "every tile tests every blob, a lane each, and walks "
        "the ballot", "fits/image/walk_balloted.glsl", by_subgroup=True),
    "sorted": FitRaster(
        "walk", _WALKED, ("subgroup_tiles",), "every tile lists the blobs that touch it, mixed up "
        "by a counter, and sorts them", "fits/image/walk_sorted.glsl"),
}
