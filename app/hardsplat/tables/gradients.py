"""Where training has its gradients from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gradient:
    statistics: bool  # finds what the adaptive densification decides by
    needs: tuple[str, ...]
    note: str


# fmt: off
GRADIENTS = {
    "analytic": Gradient(True, (), "the derivative of the image, splat by splat"),
    "stochastic": Gradient(False, ("perturbing_buffers",),
                           "two perturbed images, compared: no derivative and no order of "
                           "fragments, more steps (Deliot et al. 2024)"),
}
# fmt: on


def finds_statistics(gradient: str) -> bool:
    """Whether a gradient, `auto` among them, comes with what the adaptive densification decides
    by."""
    return gradient == "auto" or GRADIENTS[gradient].statistics
