"""Blobs where the error is: new ones at pixels drawn with the squared error as their probability,
in front of the others, whom they would else be hidden by.

On the host, since it happens a few times in a run: the image and 27 numbers a blob cross the bus.
"""

from __future__ import annotations

import numpy as np

from hardsplat.fit.blobs import NUMBERS, Blobs
from hardsplat.fit.config import FitConfig

START = 4  # a run begins with a fourth of its blobs
FADED = 1 / 255  # opacity at which a blob is drawn nowhere and has no gradient any more


def plan(config: FitConfig, capacity: int) -> tuple[int, dict[int, int]]:
    """Blobs to start with, and step -> blobs that there will be from it on: equal shares, in the
    first half of the run."""
    if not config.densify:
        return capacity, {}
    first = max(1, capacity // START)
    steps = range(config.densify_every, config.max_steps // 2 + 1, config.densify_every) or range(
        1, 2
    )
    return first, {
        step: first + round((capacity - first) * (i + 1) / len(steps))
        for i, step in enumerate(steps)
    }


def add(
    blobs: Blobs,
    moments: np.ndarray,
    image: np.ndarray,
    photo: np.ndarray,
    total: int,
    rng: np.random.Generator,
) -> tuple[Blobs, np.ndarray]:
    """`total` blobs and their moments (18, total): those of `blobs` that are not faded, behind new
    ones.

    image, photo: (H, W, 3) in 0..1, what is drawn and what should be. Where they are equal there is
    nothing to add but everywhere alike.
    """
    keep = np.flatnonzero((blobs.opacities > FADED) & np.isfinite(blobs.planes).all(0))[:total]
    new = total - len(keep)
    height, width = photo.shape[:2]
    error = np.sum((np.clip(image, 0, 1).astype(np.float64) - photo) ** 2, axis=2).reshape(-1)
    weight = error / error.sum() if np.isfinite(error.sum()) and error.sum() > 0 else None
    places = rng.choice(width * height, new, p=weight)
    # in a blob's place there are now as many pixels as blobs were added over them: smaller where
    # the error is
    added = Blobs.at(
        np.stack([places % width, places // width], 1),
        photo,
        0.5 * float(np.sqrt(width * height / total)),
        rng,
    )
    planes = np.concatenate([added.planes, blobs.planes[:, keep]], 1)
    return Blobs.of(planes), np.concatenate(
        [np.zeros((2 * NUMBERS, new), np.float32), moments[:, keep]], 1
    )
