"""Rasterizers by name. A backend is one class and one row here."""

from dataclasses import dataclass, replace
from typing import Any, get_args

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import STATISTICS, Need, needs
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core.choose import Search
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.hardware.rasterizer import HardwareRasterizer
from hardsplat.raster.tiled.rasterizer import TiledRasterizer
from hardsplat.settings.learning import GradientSettings
from hardsplat.settings.rasterizers import RasterSettings
from hardsplat.settings.train import FIELDS
from hardsplat.settings.typed import RasterizerName
from hardsplat.tables.formats import MOMENT_FORMATS

BACKENDS: dict[str, type[Rasterizer]] = {"hardware": HardwareRasterizer, "tiled": TiledRasterizer}


def rasterizer_named(word: str) -> RasterizerName:
    """The name of a rasterizer. Raises UserError where there is no such one."""
    for name in get_args(RasterizerName):
        if name == word:
            return name
    raise UserError(f"rasterizer {word}: there is no such one; choose from {', '.join(BACKENDS)}")


def training_needs(
    rasterizer: str,
    sh_degree: int,
    moments: str = "float32",
    estimates: int = 0,
    statistics: tuple[str, ...] = (),
) -> dict[str, Need]:
    """What one splat takes in training, by name. estimates: as of
    hardsplat.contract.footprint.needs. statistics: those of STATISTICS that the strategy keeps."""
    backend = BACKENDS[rasterizer]
    others = [other for other in BACKENDS.values() if other is not backend]
    absent = (name for other in others for name in other.own_buffers)
    without = (*absent, *(name for name in STATISTICS if name not in statistics))
    each = needs(sh_degree, MOMENT_FORMATS[moments].nbytes, estimates, without)
    lives = {} if estimates else backend.overlaid
    all_needs = {**each, **backend.needs}.items()
    return {name: replace(need, lives=lives.get(name)) for name, need in all_needs}


@dataclass(frozen=True)
class _Choice:
    rasterizer: str
    settings: str  # what the rasterizers were given


def _foreign_options(rasterizer: str, raster: RasterSettings) -> list[str]:
    """The options of other rasterizers alone that are not left at their defaults."""
    known = {name: set(backend.options.settings()) for name, backend in BACKENDS.items()}
    others, flat = set.union(*known.values()) - known[rasterizer], raster.flat()
    return sorted(n for n in others if flat[n] != FIELDS[n].default)


# that gradients from perturbed images do not use, since they draw forward alone
_ANALYTIC = ["block", "hybrid_threshold", "least_transmittance", "reduction", "state_format"]
_ANALYTIC += ["atomics", "tile_backward", "tile_threshold"]


def ignored_options(raster: RasterSettings, gradient: GradientSettings) -> list[str]:
    """Options that are not left at their defaults, although this gradient does not use them."""
    if gradient.gradient != "stochastic":
        return []
    flat, by_unit = raster.flat(), raster.hardware.blending in ("auto", "fixed")
    names = [*_ANALYTIC, *(["ordering"] if by_unit else [])]
    return sorted(name for name in names if flat[name] != FIELDS[name].default)


def runnable_rasterizers(
    device: Device, raster: RasterSettings, gradient: GradientSettings
) -> list[str]:
    """Names of the rasterizers that the settings leave open and that run here: one where named,
    else those that lack no option that was named.

    Raises UserError when none runs here.
    """
    named = raster.rasterizer
    if named != "auto":
        _check_survived(device, named)
    return [named] if named != "auto" else list(_runnable_options(device, raster, gradient))


def _check_survived(device: Device, rasterizer: str) -> None:
    """UserError for one whose pipelines the driver does not survive."""
    if lacks := device.killed.get(f"rasterizer {rasterizer}"):
        raise UserError(f"--rasterizer {rasterizer}: {device.name} lacks {lacks}")


def _runnable_options(
    device: Device, raster: RasterSettings, gradient: GradientSettings
) -> dict[str, Any]:
    """Their options by name."""
    runs: dict[str, Any] = {}
    why: list[str] = []
    for name in [name for name in BACKENDS if not _foreign_options(name, raster)] or list(BACKENDS):
        options = BACKENDS[name].options.of(raster, gradient)
        try:
            _check_survived(device, name)
            BACKENDS[name].first_runnable(device, options)
            runs[name] = options
        except UserError as error:
            why.append(f"{name}: {error}")
    if not runs:
        raise UserError(why[0].partition(": ")[2] if len(why) == 1 else "; ".join(why))
    return runs


def fastest(device: Device, raster: RasterSettings, gradient: GradientSettings) -> str:
    """The one of `runnable_rasterizers` that draws a small scene of our own fastest here. A
    training finds out on its own scene instead, see app/hardsplat/train/run/tuner.py."""
    if raster.rasterizer != "auto":
        return raster.rasterizer
    options = _runnable_options(device, raster, gradient)
    runs = list(options)
    if gradient.gradient == "stochastic":  # what is timed are passes of the analytic gradient
        options = {
            n: replace(each, stochastic=None, gradient="auto") for n, each in options.items()
        }

    def make(
        device: Device, parameters: Parameters, width: int, height: int, choice: _Choice, sink: Sink
    ) -> Rasterizer:
        name = choice.rasterizer
        return BACKENDS[name](device, parameters, width, height, options[name], sink=sink)

    def sources(choice: _Choice) -> set[ShaderSource]:
        return BACKENDS[choice.rasterizer].sources(device, options[choice.rasterizer])

    def first(choice: _Choice) -> dict[str, str]:
        return {"rasterizer": runs[0] if choice.rasterizer == "auto" else choice.rasterizer}

    choice = _Choice("auto", "; ".join(map(repr, options.values())))
    search = Search("rasterizer", choice, first, {"rasterizer": [*options]}, make, sources)
    return search.choose(device).rasterizer
