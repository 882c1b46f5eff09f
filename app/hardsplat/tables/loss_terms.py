"""The loss: a sum of terms, each with a weight from the settings. A term is a file in
shaders/loss/terms and one entry here.

A term of pixels has three functions. `NAME_of(c)` is its value at a pixel, summed over channels.
`d_NAME_of(c)` is the derivative of that by the rendered colour. `NAME_difference(c)` is its value
less that at a second rendered colour, for stochastic gradients. shaders/loss/compared.glsl has what
they are given. The loss takes the mean over all values of the image. The derivative is that of the
loss: a pixel that enters the values of others has theirs, too.

A term of a trained quantity has `NAME_of(p)` and `d_NAME_of(p)`, of four numbers of the quantity.
The loss takes the mean over all its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hardsplat.tables import quantities

PIXELS = "pixels"
Weight = Callable[[Mapping[str, Any], float], float]  # from settings by name, and the extent


@dataclass(frozen=True)
class LossTerm:
    """of: PIXELS, or a quantity of hardsplat.tables.quantities. weight: from the settings and the
    scene's extent."""

    slot: str
    of: str
    weight: Weight
    note: str
    function: str = ""  # the name in its functions, where it is not the term's

    def named(self, name: str) -> str:
        """What its functions are called by, for the term of this name."""
        return self.function or name


def _of_cameras(of: str, weight: float) -> Weight:
    """The weight where cameras are trained."""
    return lambda settings, extent: (
        weight if quantities.is_chosen(quantities.QUANTITIES[of], settings) else 0.0
    )


# fmt: off
LOSS_TERMS = {
    "l1": LossTerm("loss/terms/l1.glsl", PIXELS,
                   lambda s, extent: (1 - s["ssim_lambda"]) * (1 - s["l2_share"]),
                   "mean absolute error (Kerbl et al. 2023, eq. 7)"),
    "dssim": LossTerm("loss/terms/dssim.glsl", PIXELS, lambda s, extent: s["ssim_lambda"],
                      "1 - mean SSIM, zero-padded (Kerbl et al. 2023, eq. 7)"),
    "l2": LossTerm("loss/terms/l2.glsl", PIXELS,
                   lambda s, extent: (1 - s["ssim_lambda"]) * s["l2_share"] * 10,
                   "mean squared error, as steep as L1 at an error of 0.05"),
    "opacity": LossTerm("loss/terms/opacity.glsl", "logit_opacities",
                        lambda s, extent: s["opacity_reg"],
                        "mean opacity (Kheradmand et al. 2024)"),
    # per extent, so that a scene trains alike in metres and in centimetres
    "scale": LossTerm("loss/terms/scale.glsl", "log_scales",
                      lambda s, extent: s["scale_reg"] / extent,
                      "mean scale (Kheradmand et al. 2024)"),
    # Of cameras, with the weights of PPISP (arXiv 2601.18336), whose means are over red, green and
    # blue alone: 3 of our 4 numbers. A variance is over 2 of 3.
    "vignette_channels": LossTerm("loss/terms/channels.glsl", "vignette_falloff",
                                  _of_cameras("vignette_falloff", 0.1 * 4 / 2),
                                  "variance of the channels", "channels"),
    "response_channels": LossTerm("loss/terms/channels.glsl", "response",
                                  _of_cameras("response", 0.1 * 4 / 2),
                                  "variance of the channels", "channels"),
    "off_centre": LossTerm("loss/terms/off_centre.glsl", "vignette_centre",
                           _of_cameras("vignette_centre", 0.02 * 4 / 3),
                           "squared distance of the vignette from the middle"),
    "brighter_edges": LossTerm("loss/terms/brighter_edges.glsl", "vignette_falloff",
                               _of_cameras("vignette_falloff", 0.01 * 4 / 3),
                               "brightening towards the edges"),
}
# fmt: on


def pixel_terms() -> list[str]:
    """Names of the terms of pixels, which come first in records and weights."""
    return [name for name, term in LOSS_TERMS.items() if term.of == PIXELS]


def ordered() -> list[str]:
    """Names of all terms in the order of records and weights: those of pixels, then the others."""
    return [*pixel_terms(), *(name for name, term in LOSS_TERMS.items() if term.of != PIXELS)]
