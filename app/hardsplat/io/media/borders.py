"""Black borders that all photographs have, as those of letterboxed videos."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SIDES = "top", "bottom", "left", "right"
_BLACK = 16  # of 255, which compression leaves of black
_ALIKE, _SHARE = 1, 0.5  # px more than the narrowest; photographs that have no more: an object's
# distance from the sides of black pictures differs


def borders(images: Sequence[np.ndarray]) -> dict[str, int]:
    """px of black at each side of (H, W, 3) uint8 pictures, by side; those without are left out,
    and all where a picture has transparent or ignored pixels."""
    if any(image.shape[2] > 3 for image in images):
        return {}
    widths = np.array([_widths(image) for image in images if image.max() > _BLACK]).reshape(-1, 4)
    if not len(widths):
        return {}
    least = widths.min(axis=0)
    shared = (widths <= least + _ALIKE).mean(axis=0) > _SHARE
    return {side: int(n) for side, n, same in zip(SIDES, least, shared) if n and same}


def _widths(image: np.ndarray) -> list[int]:
    columns = image.transpose(1, 0, 2)
    lines = image, image[::-1], columns, columns[::-1]
    return [next(n for n, line in enumerate(side) if line.max() > _BLACK) for side in lines]
