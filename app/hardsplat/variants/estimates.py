"""How order-free gradients are estimated from samples that take splats for opaque."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    block: str  # a row of BLOCKS that `auto` takes
    samples: int  # of a pixel, where nobody says how many
    segments: int  # depth segments, where nobody says how many; fewer for images of many pixels, see SEGMENT_PIXELS
    multisampled: bool  # the samples are those of multisampling
    needs: tuple[str, ...]
    note: str


ESTIMATES = {
    "weights": Estimate("2x2", 2, 64, False, (), "every fragment has a gradient; samples say how much of it is seen and what is behind it"),
    "pairs": Estimate("1x1", 8, 1, True, (), "the splat that a sample sees has one, and the next behind it says what it hides (Xu et al. 2026)"),
}
