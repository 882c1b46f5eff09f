"""Runs of splats that share the bounds of their positions, as compressed PLY and pages have them.

A run of CHUNK splats that jumps from one place to another far away has coarse positions. It is cut
at the jump, and filled up with copies that cannot be seen.
"""

from __future__ import annotations

import numpy as np

CHUNK = 256
_SHARE = 1 / 16  # of a run, that may be rounded by more than half their size


def runs(means: np.ndarray, sizes: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(R,) where runs of at most CHUNK splats end, the last of which is N.

    means: (N, 3) of splats in their order. sizes: (N,) world units. steps: (3,) between the bounds
    along each axis. A run that rounds a larger share than _SHARE by more than half their size
    is cut where that leaves half as many of them, or fewer.
    """
    ends, at, n = [np.empty(0, np.int64)], 0, len(means)
    while at < n:
        starts = np.arange(at, n, CHUNK)
        until, cut = n, None
        most = _SHARE * np.diff(starts, append=n)
        for k in np.flatnonzero(_rounded(means, sizes, starts, steps, at) > most):
            run = slice(starts[k], min(starts[k] + CHUNK, n))
            if cut := _jump(means[run], sizes[run], steps):
                until = int(starts[k])
                break
        ends.append(np.append(starts[1:][starts[1:] < until], until) if until > at else ends[0])
        at = until
        if cut:
            at += cut
            ends.append(np.array([at]))
    return np.concatenate(ends)


def filled(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(M,) rows of splats with every run but the last filled up to CHUNK by its last splat, and
    (M,) bool which of them are such copies."""
    starts = np.concatenate([[0], ends[:-1]])
    whole = np.full(len(ends), CHUNK)
    whole[-1] = ends[-1] - starts[-1]
    place = np.arange(whole.sum()) - np.repeat(np.cumsum(whole) - whole, whole)
    count = np.repeat(ends - starts, whole)
    return np.repeat(starts, whole) + np.minimum(place, count - 1), place >= count


def rounded(means: np.ndarray, sizes: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(N,) bool: which splats of one run are rounded by more than half their size."""
    return sizes < (np.ptp(means, axis=0) / steps).max()


def _rounded(
    means: np.ndarray, sizes: np.ndarray, starts: np.ndarray, steps: np.ndarray, at: int
) -> np.ndarray:
    """(R,) how many splats of each run, from `at` on, are rounded by more than half their size."""
    low, high = (
        end.reduceat(means[at:], starts - at, axis=0).astype(np.float64)
        for end in (np.minimum, np.maximum)
    )
    step = ((high - low) / steps).max(axis=1)
    small = sizes[at:] < np.repeat(step, np.diff(starts, append=len(means)))
    return np.add.reduceat(small.astype(np.int64), starts - at)


def _jump(means: np.ndarray, sizes: np.ndarray, steps: np.ndarray) -> int:
    """The row of a run before which it is to be cut, 0 where that helps little."""
    places = means.astype(np.float64)
    if len(places) < 2:
        return 0
    cut = 1 + int(np.abs(np.diff(places, axis=0)).max(axis=1).argmax())
    parts = slice(0, cut), slice(cut, len(places))
    left = sum(int(rounded(places[part], sizes[part], steps).sum()) for part in parts)
    return cut if 2 * left <= rounded(places, sizes, steps).sum() else 0
