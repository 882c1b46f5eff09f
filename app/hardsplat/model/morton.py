"""Morton order: rows of points such that neighbours in space mostly follow each other, along a
Z-shaped curve."""

from __future__ import annotations

import numpy as np

from hardsplat.base.parallel import in_blocks

BITS = 21  # of each coordinate, so that three fit into 64
_BLOCK = 1 << 15  # points at a time
_CORE = 32.0  # times what 90 % of points lie within, beyond which a point is far out
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
    """(N,) the rows of (N, 3) finite points in the order of their keys. Points far out come behind
    the others, shell by shell, because they would squeeze them into few keys."""
    shell = _shells(points)
    if not shell.any():
        return np.argsort(keys(points, *_corners(points)), kind="stable")
    found = np.empty(len(points), np.uint64)
    for k in np.unique(shell):
        rows = np.flatnonzero(shell == k)
        inside = points[rows]
        found[rows] = keys(inside, *_corners(inside))
    return np.lexsort((found, shell))


def _corners(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(3,) lowest and highest of (N, 3) points."""
    columns = np.ascontiguousarray(points.T)  # rows of three take five times as long
    return columns.min(axis=1), columns.max(axis=1)


def _shells(points: np.ndarray) -> np.ndarray:
    """(N,) uint8: 0 for points that are not far out, and one more for each factor of _CORE
    beyond."""
    some = points[:: max(1, len(points) >> 16)].astype(np.float64)
    middle = np.median(some, axis=0)
    # of three columns, in a third of the time that rows of three take
    away = lambda these: np.abs(these.T - middle[:, None]).max(axis=0)  # noqa: E731
    core = _CORE * max(float(np.quantile(away(some), 0.9)), 1e-30)
    out = np.empty(len(points), np.uint8)

    def fill(part: slice) -> None:
        beyond = np.log2(np.maximum(away(points[part].astype(np.float64)) / core, 1))
        out[part] = np.ceil(beyond / np.log2(_CORE))

    in_blocks(len(points), _BLOCK, fill)
    return out


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
