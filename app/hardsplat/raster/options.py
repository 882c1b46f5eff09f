"""What a rasterizer can be told: dataclasses of settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from hardsplat import trained


class Options:
    """A dataclass whose fields have the names of settings."""

    @classmethod
    def of(cls, config) -> Self:
        """From settings that have fields of these names. The options of the gradient are made of those that it has, where it is the one asked for."""
        names = {f.name for f in fields(cls)}
        found = {name: getattr(config, name) for name in names if hasattr(config, name)}
        gradient = getattr(config, "gradient", "analytic")
        if gradient in ESTIMATORS and (name := gradient.replace("-", "_")) in names:
            found[name] = ESTIMATORS[gradient].of(config)
        return cls(**found)


@dataclass(frozen=True)
class Stochastic(Options):
    """Training by stochastic gradients, see raster/stochastic.py. perturbations: what every number of a quantity moves by, of means as a share of the splat's
    shorter half axis on screen; quantities that are missing stay where they are."""

    gather: str = "auto"
    gradient_pairs: int = 1
    gradient_hold: int = 1
    perturbations: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, config) -> Self:
        sizes = tuple((q.name, float(getattr(config, q.perturbation))) for q in trained.of("splat") if q.perturbation)
        return cls(config.gather, config.gradient_pairs, config.gradient_hold, sizes)


@dataclass(frozen=True)
class OrderFree(Options):
    """Training by order-free gradients, see raster/orderfree.py. gradient_samples: of a pixel, `auto` for as many as the device draws, up to 8.
    gradient_draws: how often they are drawn in a step."""

    gradient_samples: str = "auto"
    gradient_draws: int = 1


ESTIMATORS: dict[str, type[Options]] = {"stochastic": Stochastic, "order-free": OrderFree}  # gradient -> its options, a field of a rasterizer's
