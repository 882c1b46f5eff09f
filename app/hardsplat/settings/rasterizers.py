"""Settings of rasterizers."""

from dataclasses import dataclass

from hardsplat.settings.option import option, variant
from hardsplat.settings.owner import Owner, part
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, SHAPES
from hardsplat.tables.reductions import ATOMICS, REDUCTIONS
from hardsplat.tables.tiles import TILE_BACKWARDS

RASTERIZERS = ("hardware", "tiled")  # names in hardsplat.raster.BACKENDS, which imports Vulkan


@dataclass(frozen=True, kw_only=True)
class HardwareSettings(Owner):
    """hardware rasterizer"""

    flag, values = "rasterizer", ("hardware", "auto")
    format: str = option("float16", "render target of the image", choices=tuple(FORMATS))
    state_format: str = option(
        "same",
        "per-pixel state of ordered fragments, and of depth segments; same: as "
        "--format; blocks keep float32 or, for the others, halves",
        choices=("same", *FORMATS),
    )
    blending: str = variant(
        BLENDINGS,
        "images: by the blending unit, in the shader, or from lists",
        auto="lists with --ordering lists, else the first that runs",
    )
    ordering: str = variant(
        ORDERINGS, "what brings overlapping fragments in order; lists: on every device"
    )
    reduction: str = variant(REDUCTIONS, "how fragments' gradients are summed before the atomics")
    hybrid_threshold: int = option(
        0,
        "contributing lanes of 32 from which a subgroup sum replaces quad sums; 0: as many as are "
        "the fastest here",
        unit="lanes",
        min=0,
    )
    block: str = variant(BLOCKS, "backward pass: pixels that one fragment stands for")
    shape: str = variant(SHAPES, "primitives that a splat is drawn as")
    segments: int = option(
        0,
        "depth segments that fixed-function blending draws to canvases of their own, so "
        "that fragments wait less; 0: as many as are the fastest here",
    )
    least_transmittance: float = option(
        1e-4,
        "transmittance in front of a depth segment below which its backward pass leaves "
        "pixels out; more than the default "
        "is faster, and gradients of what is hardly seen are missing",
        max=0.5,
    )


@dataclass(frozen=True, kw_only=True)
class TiledSettings(Owner):
    """tiled rasterizer"""

    flag, values = "rasterizer", ("tiled", "auto")
    tile_backward: str = variant(
        TILE_BACKWARDS, "how gradients are found and summed", auto="the first that runs here"
    )
    tile_threshold: int = option(
        0,
        "distwar: contributing lanes of 32 from which a sum replaces atomics; 0: as many as are "
        "the fastest here",
        unit="lanes",
        min=0,
    )


@dataclass(frozen=True, kw_only=True)
class RasterSettings(Owner):
    """rasterizer"""

    rasterizer: str = option(
        "auto",
        "hardware: quads through the graphics pipeline; tiled: tiles of pixels in "
        "compute shaders; auto: the faster one here",
        choices=("auto", *RASTERIZERS),
        aka="backend",
    )
    antialiased: bool = option(
        False,
        "opacities compensate for the 0.3 px^2 added to splats, the 2D filter of Mip-Splatting "
        "(gsplat's rasterize_mode antialiased); most other programs draw such splats too bold",
        aka="antialiasing mip",
    )
    atomics: str = variant(ATOMICS, "how gradients are added to memory")
    hardware: HardwareSettings = part(HardwareSettings)
    tiled: TiledSettings = part(TiledSettings)
