"""What a rasterizer can be told: dataclasses of settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from hardsplat.tables import quantities

NO_SETTINGS = ("stochastic", "lens")  # options that follow from other settings, and from cameras


@dataclass(frozen=True)
class Options:
    """A dataclass whose fields have the names of settings, but for NO_SETTINGS."""

    @classmethod
    def settings(cls) -> list[str]:
        """Names of the options that are settings."""
        return [f.name for f in fields(cls) if f.name not in NO_SETTINGS]

    @classmethod
    def of(cls, config) -> Self:
        """From settings that have fields of these names. `stochastic` is made of those that it has,
        where they ask for it."""
        found = {f.name: getattr(config, f.name) for f in fields(cls) if hasattr(config, f.name)}
        if getattr(config, "gradient", "analytic") == "stochastic" and any(
            f.name == "stochastic" for f in fields(cls)
        ):
            found["stochastic"] = Stochastic.of(config)
        return cls(**found)


@dataclass(frozen=True)
class Stochastic(Options):
    """Training by stochastic gradients, see raster/core/stochastic.py. perturbations: what every
    number of a quantity moves by, of means as a share of the splat's shorter half axis on screen;
    quantities that are missing stay where they are."""

    gradient_pairs: int = 1
    perturbations: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, config) -> Self:
        sizes = tuple(
            (q.name, q.perturbation * config.perturbation)
            for q in quantities.of("splat")
            if q.perturbation
        )
        return cls(config.gradient_pairs, sizes)
