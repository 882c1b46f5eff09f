"""Codebooks: numbers and vectors replaced by the nearest of a few, which are learned from a sample."""

from __future__ import annotations

import numpy as np

_COARSE = 256  # cells of the tree's first level
_PROBES = 2  # cells that are searched for a vector's nearest entry
_CELLS = 1024  # of a histogram
_TURNS = 8  # of Lloyd's iteration; later ones change little


def scalar_codebook(sample: np.ndarray, size: int = 256) -> np.ndarray:
    """(size,) float32, ascending: Lloyd's iteration on a sample of numbers.

    Of 1024 equal ranges each counts as much as any other, however many numbers are in it: codes of even steps compress best, and the few numbers far out,
    which are the largest splats and the brightest colours, are not given away for the many.
    """
    values = np.sort(sample.astype(np.float64).ravel())
    low, span = values[0], max(values[-1] - values[0], 1e-12)
    cell = np.minimum(((values - low) / span * _CELLS).astype(int), _CELLS - 1)
    weights = 1 / np.bincount(cell, minlength=_CELLS)[cell]
    mass, moment = (np.concatenate([[0], np.cumsum(w)]) for w in (weights, weights * values))
    book = np.interp((np.arange(size) + 0.5) / size * mass[-1], mass[1:], values)
    for _ in range(50):
        edges = np.searchsorted(values, (book[1:] + book[:-1]) / 2)
        edges = np.concatenate([[0], edges, [len(values)]])
        inside = np.diff(mass[edges])
        book = np.where(inside > 0, np.diff(moment[edges]) / np.where(inside > 0, inside, 1), book)
    return np.sort(book).astype(np.float32)


def scalar_labels(values: np.ndarray, book: np.ndarray) -> np.ndarray:
    """The index of the nearest entry of an ascending codebook, uint8, of the shape of `values`."""
    return np.searchsorted((book[1:] + book[:-1]) / 2, values).astype(np.uint8)


class Palette:
    """At most `size` vectors that stand for all of a sample, in a tree of two levels, so that 60 000 are learned and searched in seconds.

    entries: (size, D) float32.
    """

    def __init__(self, sample: np.ndarray, size: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        sample = np.ascontiguousarray(sample, np.float32)
        self._roots = _lloyd(_some(sample, 64 * _COARSE, rng), min(_COARSE, max(1, size // 8)), rng)
        cell, squared = _nearest(sample, self._roots)
        shares = _shares(np.bincount(cell, squared, len(self._roots)), np.bincount(cell, minlength=len(self._roots)), size)
        order = np.argsort(cell, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(cell, minlength=len(self._roots)))[:-1])
        leaves = [_lloyd(_some(sample[which], 32 * share, rng), share, rng) if share else np.empty((0, sample.shape[1]), np.float32) for which, share in zip(members, shares)]
        self.entries = np.concatenate(leaves)
        self._starts = np.concatenate([[0], np.cumsum([len(leaf) for leaf in leaves])])

    def labels(self, vectors: np.ndarray) -> np.ndarray:
        """(N,) the index of the nearest entry among those of the nearest cells."""
        vectors = np.ascontiguousarray(vectors, np.float32)
        distances = _distances(vectors, self._roots)
        probes = min(_PROBES, len(self._roots))
        cells: np.ndarray = np.empty((len(vectors), probes), np.int64)
        for i in range(probes):
            cells[:, i] = distances.argmin(axis=1)
            distances[np.arange(len(vectors)), cells[:, i]] = np.inf
        cells = cells.ravel()
        order = np.argsort(cells, kind="stable")
        ends = np.cumsum(np.bincount(cells, minlength=len(self._roots)))
        best, label = np.full(len(vectors), np.inf, np.float32), np.zeros(len(vectors), np.int64)
        for cell, which in enumerate(np.split(order // probes, ends[:-1])):
            start, end = self._starts[cell], self._starts[cell + 1]
            if start == end or not len(which):
                continue
            found, squared = _nearest(vectors[which], self.entries[start:end])
            nearer = squared < best[which]
            best[which[nearer]], label[which[nearer]] = squared[nearer], start + found[nearer]
        return label


def _shares(errors: np.ndarray, numbers: np.ndarray, size: int) -> np.ndarray:
    """How many of `size` entries each cell gets: one at least where it has members, the others by the square root of its error, never more than members."""
    weight = np.sqrt(np.maximum(errors, 0) * numbers)
    share = np.minimum(numbers, 1)
    for _ in range(8):  # what full cells cannot take goes to the others
        left = size - share.sum()
        open_ = share < numbers
        total = weight[open_].sum()
        if left <= 0 or not total:
            break
        share[open_] += np.floor(left * weight[open_] / total).astype(share.dtype)
        share = np.minimum(share, numbers)
    return share


def _some(vectors: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    return vectors if len(vectors) <= number else vectors[rng.choice(len(vectors), number, replace=False)]


def _lloyd(vectors: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """(size or fewer, D) cluster centres."""
    if len(vectors) <= size:
        return vectors.copy()
    centres = _some(vectors, size, rng).copy()
    for _ in range(_TURNS):
        label, squared = _nearest(vectors, centres)
        number = np.bincount(label, minlength=size)
        order = np.argsort(label, kind="stable")
        used = np.flatnonzero(number)
        starts = np.concatenate([[0], np.cumsum(number)])[:-1]
        centres[used] = np.add.reduceat(vectors[order], starts[used]) / number[used, None]
        empty = np.flatnonzero(number == 0)
        centres[empty] = vectors[np.argsort(squared)[len(vectors) - len(empty) :]]  # those that are farthest from any
    return centres


def _distances(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(N, M) squared distances, less the square of each vector."""
    return (centres**2).sum(axis=1) - 2 * vectors @ centres.T


def _nearest(vectors: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) index of the nearest centre, (N,) squared distance; in blocks, so that the distances of all never lie in memory together."""
    label, squared = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
    block = max(1, (1 << 22) // max(1, len(centres)))
    for at in range(0, len(vectors), block):
        part = vectors[at : at + block]
        distances = _distances(part, centres)
        label[at : at + block] = distances.argmin(axis=1)
        squared[at : at + block] = distances.min(axis=1) + (part**2).sum(axis=1)
    return label, squared
