"""What the loss ignores of a photograph since something moves there, in the visits of a training.

A cell has CELL x CELL pixels. Its residual is the mean difference, without its sign, of the channel
that differs most: over the cell or over the 3 x 3 cells around it, whichever is smaller.
"""

import numpy as np

CELL, NEW, BINS = 4, 0.3, 256
QUANTILE, FAR, LEAST, NEAR, REACH, VOTES = 0.75, 6.0, 0.06, 0.5, 2, 3


def _cells(values: np.ndarray) -> np.ndarray:
    """Sums over cells: (H, W, n) -> (rows, columns, n)."""
    height, width = values.shape[:2]
    padded = np.pad(values, ((0, -height % CELL), (0, -width % CELL), (0, 0)))
    rows, columns = (n // CELL for n in padded.shape[:2])
    return padded.reshape(rows, CELL, columns, CELL, -1).sum((1, 3))


def _around(values: np.ndarray, reach: int) -> np.ndarray:
    """Sums over (2 reach + 1)^2 neighbours, of which those outside are 0."""
    padded = np.pad(values, ((reach, reach), (reach, reach), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach + 1,) * 2, (0, 1))
    return windows.sum((-2, -1))


def residual(image: np.ndarray, photo: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
    """(rows, columns) of images (H, W, 3); keep: (H, W), which pixels count."""
    counts = np.ones(image.shape[:2]) if keep is None else keep.astype(float)
    sums = np.concatenate([(image - photo) * counts[..., None], counts[..., None]], axis=2)
    each = (_cells(sums), _around(_cells(sums), 1))
    means = [np.abs(s[..., :3]).max(2) / np.maximum(s[..., 3], 1) for s in each]
    return np.maximum(np.minimum(*means), 1e-6)


def follow(before: np.ndarray | None, now: np.ndarray) -> np.ndarray:
    """The running mean of residuals; before: None at the first visit."""
    return now if before is None else (1 - NEW) * before + NEW * now


def limit(mean: np.ndarray) -> float:
    """Above it a residual is far from what the photograph has elsewhere."""
    bins = np.minimum((np.sqrt(mean) * BINS).astype(int), BINS - 1)
    below = np.cumsum(np.bincount(bins.ravel(), minlength=BINS))
    found = int(np.searchsorted(below, QUANTILE * mean.size))
    return max(FAR * ((found + 0.5) / BINS) ** 2, LEAST)


def ignored(mean: np.ndarray) -> np.ndarray:
    """(rows, columns) bool: which cells the loss leaves out."""
    high = limit(mean)
    votes = _around((mean > high)[..., None].astype(float), REACH)[..., 0]
    return (mean > NEAR * high) & (votes >= VOTES)
