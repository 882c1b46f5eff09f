"""How order-free gradients are estimated: from samples that take splats for opaque, or from what is known at the borders of depth segments."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    block: str  # a row of BLOCKS that `auto` takes
    samples: int  # of a pixel, where nobody says how many
    segments: int  # depth segments, where nobody says how many; fewer for images of many pixels, see SEGMENT_PIXELS
    multisampled: bool  # the samples are those of multisampling
    sampled: bool  # has samples at all, and noise with them
    needs: tuple[str, ...]
    note: str


ESTIMATES = {
    "weights": Estimate("2x2", 2, 64, False, True, (), "every fragment has a gradient; samples say how much of it is seen and what is behind it"),
    "pairs": Estimate("1x1", 8, 1, True, True, (), "the splat that a sample sees has one, and the next behind it says what it hides (Xu et al. 2026)"),
    "between": Estimate("2x2", 0, 64, False, False, (), "no samples: what is in front of a splat in its depth segment is guessed from its rank there; no noise, but an error"),
}
