"""Codebooks: numbers and vectors replaced by the nearest of a few, which are learned from a
sample."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hardsplat.base.parallel import THREADS

_COARSE = 256  # cells of the tree's first level
_PROBES = 2  # cells that are searched for a vector's nearest entry
_CELLS = 1024  # of a histogram
_NUMBERS = 1 << 19  # that a codebook of numbers is learned from, at most
_ALONE = 1 << 18  # multiplications of a matrix product that OpenBLAS makes in one thread
_CACHED = 1 << 18  # distances
_LEAST = 1e-4  # of the mean, that every vector of a palette's sample weighs
_TURNS = 8  # of Lloyd's iteration; later ones change little


def scalar_codebook(sample: np.ndarray, size: int = 256) -> np.ndarray:
    """(size,) float32, ascending: Lloyd's iteration on a sample of numbers.

    Of 1024 equal ranges each counts as much as any other, however many numbers are in it. Codes of
    even steps compress best, and the few numbers far out, which are the largest splats and the
    brightest colours, are not given away for the many.
    """
    values = sample.ravel()
    if len(values) > _NUMBERS:
        ends = [values.min(), values.max()]
        values = np.concatenate([values[:: -(-len(values) // _NUMBERS)], ends])
    values = np.sort(values.astype(np.float64))
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
    borders = (book[1:] / 2 + book[:-1] / 2).astype(values.dtype)
    return np.searchsorted(borders, values).astype(np.uint8)


class Palette:
    """At most `size` vectors that stand for all of a sample, in a tree of two levels, so that 65
    536 are learned and searched in seconds.

    sample: (N, D). weights: (N,) how much the squared error of each counts, above 0; all the same
    by default. entries: (size, D) float32. threads: that work at once.
    turns: of Lloyd's iteration within cells; few do where nearly every vector has an entry.
    """

    def __init__(
        self,
        sample: np.ndarray,
        size: int,
        weights: np.ndarray | None = None,
        threads: int = THREADS,
        turns: int = _TURNS,
    ):
        self._threads = threads
        rng = np.random.default_rng(0)
        sample = np.ascontiguousarray(sample, np.float32)
        weights = np.ones(len(sample)) if weights is None else weights
        weights = np.maximum(weights / max(weights.mean(), 1e-30), _LEAST).astype(np.float32)
        some, cells = _some(weights, 64 * _COARSE, rng), min(_COARSE, max(1, size // 8))
        self._roots = _lloyd(sample[some], np.ones(len(some), np.float32), cells, rng)
        cell, squared = _nearest(sample, self._roots)
        numbers = np.bincount(cell, minlength=len(self._roots))
        shares = _shares(np.bincount(cell, weights * squared, len(self._roots)), numbers, size)
        members = np.split(np.argsort(cell, kind="stable"), np.cumsum(numbers)[:-1])

        def leaf(k: int) -> np.ndarray:
            which, own = members[k], np.random.default_rng([0, k])
            if not shares[k]:
                return np.empty((0, sample.shape[1]), np.float32)
            which = which[_some(weights[which], 32 * shares[k], own, weighted=False)]
            return _lloyd(sample[which], weights[which], shares[k], own, turns)

        with ThreadPoolExecutor(threads) as pool:
            leaves = list(pool.map(leaf, range(len(members))))
        self.entries = np.concatenate(leaves)
        self._starts = np.concatenate([[0], np.cumsum([len(leaf) for leaf in leaves])])

    def labels(self, vectors: np.ndarray) -> np.ndarray:
        """(N,) the index of the nearest entry among those of the nearest cells."""
        parts = np.array_split(np.ascontiguousarray(vectors, np.float32), self._threads)
        with ThreadPoolExecutor(self._threads) as pool:
            return np.concatenate(list(pool.map(self._labels, parts)))

    def _labels(self, vectors: np.ndarray) -> np.ndarray:
        probes = min(_PROBES, len(self._roots))
        cells = _nearest_few(vectors, self._roots, probes).ravel()
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
    """How many of `size` entries each cell gets: one at least where it has members, the others by
    the square root of its error, never more than members."""
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


def _some(
    weights: np.ndarray, number: int, rng: np.random.Generator, weighted: bool = True
) -> np.ndarray:
    """Rows, at most `number` of them; weighted: the more likely, the more they weigh."""
    if len(weights) <= number:
        return np.arange(len(weights))
    if not weighted:
        return rng.choice(len(weights), number, replace=False)
    chance = weights.astype(np.float64)
    return rng.choice(len(weights), number, replace=False, p=chance / chance.sum())


def _lloyd(
    vectors: np.ndarray,
    weights: np.ndarray,
    size: int,
    rng: np.random.Generator,
    turns: int = _TURNS,
) -> np.ndarray:
    """(size or fewer, D) cluster centres."""
    if len(vectors) <= size:
        return vectors.copy()
    centres = vectors[_some(weights, size, rng)]
    for _ in range(turns):
        label, squared = _nearest(vectors, centres)
        number = np.bincount(label, minlength=size)
        order = np.argsort(label, kind="stable")
        used = np.flatnonzero(number)
        starts = np.concatenate([[0], np.cumsum(number)])[:-1]
        sums = np.add.reduceat((vectors * weights[:, None])[order], starts[used])
        centres[used] = sums / np.bincount(label, weights, size)[used, None]
        empty = np.flatnonzero(number == 0)
        # those that are farthest from any
        centres[empty] = vectors[np.argsort(weights * squared)[len(vectors) - len(empty) :]]
    return centres


def _distances(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(N, M) squared distances, less the square of each row.

    The product is made of so small ones that the library of linear algebra starts no threads for
    them, which would wait for one another most of the time.
    """
    few = max(1, _ALONE // max(1, centres.size))
    whole = len(vectors) // few * few
    out = np.empty((len(vectors), len(centres)), np.float32)
    turned = np.ascontiguousarray(-2 * centres.T)
    blocks = vectors[:whole].reshape(-1, few, vectors.shape[1])
    np.matmul(blocks, turned, out=out[:whole].reshape(-1, few, len(centres)))
    np.matmul(vectors[whole:], turned, out=out[whole:])
    out += (centres**2).sum(axis=1)
    return out


def _blocks(vectors: np.ndarray, centres: np.ndarray) -> Iterator[slice]:
    """Ranges of vectors whose distances from all centres fit into a cache."""
    block = max(1, _CACHED // max(1, len(centres)))
    return (slice(at, at + block) for at in range(0, len(vectors), block))


def _nearest(vectors: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) index of the nearest centre, (N,) squared distance."""
    label, squared = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
    for span in _blocks(vectors, centres):
        distances = _distances(vectors[span], centres)
        found = label[span] = distances.argmin(axis=1)
        squared[span] = distances[np.arange(len(found)), found]
    squared += (vectors**2).sum(axis=1)
    return label, squared


def _nearest_few(vectors: np.ndarray, centres: np.ndarray, few: int) -> np.ndarray:
    """(N, few) indices of the nearest centres, the nearest first."""
    found = np.empty((len(vectors), few), np.int64)
    for span in _blocks(vectors, centres):
        distances = _distances(vectors[span], centres)
        for i in range(few):
            found[span, i] = nearest = distances.argmin(axis=1)
            distances[np.arange(len(nearest)), nearest] = np.inf
    return found
