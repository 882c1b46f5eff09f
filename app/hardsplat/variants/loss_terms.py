"""The loss: a sum of terms, each with a weight that settings say. A term is a file in shaders/loss/terms and one entry here.

A term of pixels has three functions: `NAME_of(c)`, its value at a pixel, summed over the channels; `d_NAME_of(c)`, the derivative of that by the rendered colour;
and `NAME_difference(c)`, its value less that at a second rendered colour, for stochastic gradients (shaders/loss/compared.glsl has what they are given).
The loss takes the mean over all values of the image.

A term of a trained quantity has `NAME_of(p)` and `d_NAME_of(p)`, of four numbers of the quantity. The loss takes the mean over all its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PIXELS = "pixels"


@dataclass(frozen=True)
class LossTerm:
    """of: PIXELS, or a quantity of hardsplat.trained. weight: from the settings and the scene's extent."""

    slot: str
    of: str
    weight: Callable[[Any, float], float]
    note: str


LOSS_TERMS = {
    "l1": LossTerm("loss/terms/l1.glsl", PIXELS, lambda settings, extent: 1 - settings.ssim_lambda, "mean absolute error (Kerbl et al. 2023, eq. 7)"),
    "dssim": LossTerm("loss/terms/dssim.glsl", PIXELS, lambda settings, extent: settings.ssim_lambda, "1 - mean SSIM, zero-padded (Kerbl et al. 2023, eq. 7)"),
    "opacity": LossTerm(
        "loss/terms/opacity.glsl", "logit_opacities", lambda settings, extent: settings.opacity_reg, "mean opacity (Kheradmand et al. 2024)"
    ),
    # per extent, so that a scene trains alike in metres and in centimetres
    "scale": LossTerm("loss/terms/scale.glsl", "log_scales", lambda settings, extent: settings.scale_reg / extent, "mean scale (Kheradmand et al. 2024)"),
}


def terms_of(quantity: str) -> list[str]:
    """Names of the terms of a quantity, or of PIXELS, in the order of the table."""
    return [name for name, term in LOSS_TERMS.items() if term.of == quantity]


def pixel_terms() -> list[str]:
    """Names of the terms of pixels, which come first in records and weights."""
    return terms_of(PIXELS)


def ordered() -> list[str]:
    """Names of all terms in the order of records and weights: those of pixels, then the others."""
    return [*pixel_terms(), *(name for name, term in LOSS_TERMS.items() if term.of != PIXELS)]
