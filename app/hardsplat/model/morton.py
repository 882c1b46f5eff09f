"""Morton order: rows of points such that neighbours in space mostly follow each other, along a
Z-shaped curve."""

from __future__ import annotations

import numpy as np

from hardsplat.base.parallel import in_blocks

BITS = 21  # of each coordinate, so that three fit into 64
_BLOCK = 1 << 15  # points at a time
_SPREAD = {
    32: 0x1F00000000FFFF,
    16: 0x1F0000FF0000FF,
    8: 0x100F00F00F00F00F,
    4: 0x10C30C30C30C30C3,
    2: 0x1249249249249249,
}


def keys(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(N,) uint64: coordinates of (N, 3) finite points within the box low..high, 21 bits each,
    interleaved, x lowest. Equal keys are equal cells."""
    span = np.where(high > low, high.astype(np.float64) - low, 1)
    out = np.empty(len(points), np.uint64)

    def fill(part: slice) -> None:
        cells = (points[part].astype(np.float64) - low) / span * (2**BITS - 1)
        out[part] = _interleaved(np.clip(cells, 0, 2**BITS - 1).astype(np.uint64))

    in_blocks(len(points), _BLOCK, fill)
    return out


def order(points: np.ndarray) -> np.ndarray:
    """(N,) the rows of (N, 3) finite points in the order of their keys in their bounding box."""
    return np.argsort(keys(points, points.min(axis=0), points.max(axis=0)), kind="stable")


def order_by_rank(points: np.ndarray) -> np.ndarray:
    """(N,) the same by their ranks along the axes instead of their coordinates, because far points
    would squeeze the others together."""
    n = len(points)
    ranks = np.empty((n, 3), np.uint64)
    for axis in range(3):
        ranks[points[:, axis].argsort(), axis] = np.arange(n) * 1024 // max(n, 1)
    return np.argsort(_interleaved(ranks), kind="stable")


def _interleaved(cells: np.ndarray) -> np.ndarray:
    """(N,) the bits of (N, 3) numbers below 2^21, interleaved."""
    for shift, mask in _SPREAD.items():
        cells = (cells | cells << np.uint64(shift)) & np.uint64(mask)
    return cells[:, 0] | cells[:, 1] << np.uint64(1) | cells[:, 2] << np.uint64(2)
