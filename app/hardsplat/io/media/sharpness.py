"""Blurred photographs, found by comparing each with its neighbours in the sequence.

A blur takes fine detail and leaves coarse: second derivatives lose variance at the size of the
picture, and little at half of it. A shake blurs along one direction, so both are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SIDE = 640  # px, longer side at which photographs are compared
NEIGHBOURS = 3  # to each side
# of the detail of neighbours, below which a photograph is blurred; five captures of 97 to 100
# photographs have 0.47 at the lowest, and blurs of 5 px at 1000 px have 0.46 or less, mostly 0.3
BLURRED = 0.45
_LEAST = 16  # px of a side with detail to compare
FEWEST = 2 * NEIGHBOURS + 1  # photographs that can be compared


def detail(image: np.ndarray) -> np.ndarray:
    """(2,) share of fine in coarse detail along x and y, of an (H, W, 3 or 4) uint8 picture."""
    import cv2

    if (scale := SIDE / max(image.shape[:2])) < 1:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    grey: np.ndarray = cv2.cvtColor(image[..., :3], cv2.COLOR_RGB2GRAY).astype(np.float32)
    if min(grey.shape) < _LEAST:
        return np.ones(2)
    half = grey[: grey.shape[0] // 2 * 2, : grey.shape[1] // 2 * 2]
    half = (half[::2, ::2] + half[1::2, ::2] + half[::2, 1::2] + half[1::2, 1::2]) / 4
    found = []
    for axis in (1, 0):
        fine, coarse = (float(np.diff(a, 2, axis=axis).var()) for a in (grey, half))
        found.append(fine / max(coarse, 1.0))
    return np.array(found)


def blurs(details: Sequence[np.ndarray]) -> np.ndarray:
    """(N,) the detail of each picture over the median of its neighbours', along the direction in
    which it has less; 1 where there are too few."""
    if len(details) < FEWEST:
        return np.ones(len(details))
    logs = np.log(np.maximum(np.array(details), 1e-6))
    out = np.empty(len(logs))
    for i in range(len(logs)):
        near = [
            j for j in range(i - NEIGHBOURS, i + NEIGHBOURS + 1) if 0 <= j < len(logs) and j != i
        ]
        out[i] = np.exp((logs[i] - np.median(logs[near], axis=0)).min())
    return out
