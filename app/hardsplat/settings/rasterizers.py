"""Settings of rasterizers, and the options that they get of them."""

from dataclasses import dataclass, fields
from typing import Self

from hardsplat.settings.learning import GradientSettings, StochasticSettings
from hardsplat.settings.option import Owner, option, part, variant
from hardsplat.tables import quantities
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.gradients import ATOMICS, REDUCTIONS, TILE_BACKWARDS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, SHAPES

RASTERIZERS = ("hardware", "tiled")  # names in hardsplat.raster.BACKENDS, which imports Vulkan


@dataclass(frozen=True, kw_only=True)
class HardwareSettings(Owner):
    """hardware rasterizer"""

    flag, values = "rasterizer", ("hardware", "auto")
    format: str = option("float16", "render target of the image", choices=tuple(FORMATS))
    state_format: str = option(
        "same",
        "per-pixel state of ordered fragments and depth segments; same: as --format; blocks keep "
        "float32 or, for the others, halves",
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
        "contributing lanes of 32 from which one sum replaces quad sums; 0: the fastest here",
        unit="lanes",
    )
    block: str = variant(BLOCKS, "backward pass: pixels that one fragment stands for")
    shape: str = variant(SHAPES, "primitives that a splat is drawn as")
    segments: int = option(
        0,
        "depth segments that fixed-function blending draws to canvases of their own, so that "
        "fragments wait less; 0: the fastest here",
    )
    least_transmittance: float = option(
        1e-4,
        "transmittance in front of a depth segment below which its backward pass skips pixels; "
        "more is faster, and gradients of what is hardly seen are missing",
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
        "distwar: contributing lanes of 32 from which a sum replaces atomics; 0: the fastest here",
        unit="lanes",
    )


@dataclass(frozen=True, kw_only=True)
class RasterSettings(Owner):
    """rasterizer"""

    rasterizer: str = option(
        "auto",
        "hardware: quads in the graphics pipeline; tiled: tiles in compute; auto: the faster here",
        choices=("auto", *RASTERIZERS),
        aka="backend",
    )
    antialiased: bool = option(
        False,
        "opacities compensate for the 0.3 px^2 added to splats, the 2D filter of Mip-Splatting; "
        "most other programs draw such splats too bold",
        aka="antialiasing mip",
    )
    atomics: str = variant(ATOMICS, "how gradients are added to memory")
    hardware: HardwareSettings = part(HardwareSettings)
    tiled: TiledSettings = part(TiledSettings)


@dataclass(frozen=True)
class Stochastic:
    """Training by stochastic gradients, see raster/core/stochastic.py. perturbations: what every
    number of a quantity moves by, of means as a share of the splat's shorter half axis on screen;
    quantities that are missing stay where they are."""

    gradient_pairs: int = 1
    perturbations: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, settings: StochasticSettings) -> Self:
        sizes = tuple(
            (q.name, q.perturbation * settings.perturbation)
            for q in quantities.of("splat")
            if q.perturbation
        )
        return cls(settings.gradient_pairs, sizes)


# options that follow from other settings and from cameras
NO_SETTINGS = ("stochastic", "lens")


@dataclass(frozen=True)
class Options:
    """What a rasterizer gets: fields have the names of settings, but for NO_SETTINGS."""

    atomics: str = "auto"
    antialiased: bool = False  # opacities times the compensation of the dilation
    lens: str = "pinhole"  # or "distorted", which takes cameras of both kinds
    stochastic: Stochastic | None = None  # gradients from perturbed images
    gradient: str = "auto"  # auto: analytic; stochastic: see above

    @classmethod
    def settings(cls) -> list[str]:
        """Names of the options that are settings."""
        return [f.name for f in fields(cls) if f.name not in NO_SETTINGS]

    @classmethod
    def of(cls, raster: RasterSettings, gradient: GradientSettings) -> Self:
        """From settings of these names. `stochastic` is made of its own, where it is chosen."""
        flat = raster.flat() | gradient.flat()
        found = {name: flat[name] for name in cls.settings()}
        if gradient.gradient == "stochastic":
            found["stochastic"] = Stochastic.of(gradient.stochastic)
        return cls(**found)
