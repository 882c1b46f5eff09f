"""Densification of image fits: new blobs at pixels drawn by squared error, in front of the others.

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
    first, every = max(1, capacity // START), config.densify_every
    steps = range(every, config.max_steps // 2 + 1, every) or range(1, 2)
    added = (round((capacity - first) * i / len(steps)) for i in range(1, len(steps) + 1))
    return first, {step: first + n for step, n in zip(steps, added)}


def add(
    blobs: Blobs,
    moments: np.ndarray,
    image: np.ndarray,
    photo: np.ndarray,
    total: int,
    rng: np.random.Generator,
) -> tuple[Blobs, np.ndarray]:
    """`total` blobs and their moments (18, total): new ones in front of those that have not faded.

    image, photo: (H, W, 3) in 0..1, what is drawn and what should be. Where they are equal, new
    blobs are uniform over the image.
    """
    keep = np.flatnonzero((blobs.opacities > FADED) & np.isfinite(blobs.planes).all(0))[:total]
    new = total - len(keep)
    height, width = photo.shape[:2]
    error = np.sum((np.clip(image, 0, 1).astype(np.float64) - photo) ** 2, axis=2).reshape(-1)
    weight = error / error.sum() if np.isfinite(error.sum()) and error.sum() > 0 else None
    places = rng.choice(width * height, new, p=weight)
    pixels = np.stack([places % width, places // width], 1)
    # half the mean distance of blobs: they are smaller where the error is
    added = Blobs.at(pixels, photo, 0.5 * float(np.sqrt(width * height / total)), rng)
    planes = np.concatenate([added.planes, blobs.planes[:, keep]], 1)
    zeros = np.zeros((2 * NUMBERS, new), np.float32)
    return Blobs.of(planes), np.concatenate([zeros, moments[:, keep]], 1)
