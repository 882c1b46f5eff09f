"""Settings that a run does not look at."""

from hardsplat.raster.backends import of_others
from hardsplat.settings.train import FIELDS, TrainConfig
from hardsplat.tables.reductions import REDUCTIONS


def unused(config: TrainConfig) -> set[str]:
    """Options of rasterizers and gradients that this run does not look at."""
    estimator = {"gradient_pairs", "perturbation"}
    estimated = config.gradient == "stochastic"
    out = {"tile_backward", "tile_threshold", "state_format", "block"} if estimated else set()
    out |= {"ordering"} if estimated and config.blending in ("auto", "fixed") else set()
    out |= estimator if not estimated else set()
    if config.rasterizer == "auto":
        return out
    out |= of_others(config.rasterizer)
    row = REDUCTIONS.get(config.reduction)
    return out | (
        {"hybrid_threshold"} if row is not None and "THRESHOLD" not in row.spec else set()
    )


def said_in_vain(config: TrainConfig) -> list[str]:
    """Settings that were named, although this run does not look at them."""
    return sorted(name for name in unused(config) if getattr(config, name) != FIELDS[name].default)
