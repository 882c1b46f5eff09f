"""Options of rasterizers: dataclasses of settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from hardsplat.settings.learning import GradientSettings, StochasticSettings
from hardsplat.settings.rasterizers import RasterSettings
from hardsplat.tables import quantities

# options that follow from other settings and from cameras
NO_SETTINGS = ("stochastic", "lens")


@dataclass(frozen=True)
class Options:
    """A dataclass whose fields have the names of settings, but for NO_SETTINGS."""

    @classmethod
    def settings(cls) -> list[str]:
        """Names of the options that are settings."""
        return [f.name for f in fields(cls) if f.name not in NO_SETTINGS]

    @classmethod
    def of(cls, raster: RasterSettings, gradient: GradientSettings) -> Self:
        """From settings of these names. `stochastic` is made of its own, where it is chosen."""
        flat = raster.flat() | gradient.flat()
        found = {name: flat[name] for name in cls.settings()}
        if gradient.gradient == "stochastic" and hasattr(cls, "stochastic"):
            found["stochastic"] = Stochastic.of(gradient.stochastic)
        return cls(**found)


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
