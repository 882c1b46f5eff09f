"""Order of splats: Morton codes, and sorting more splats than fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hardsplat.gaussians import Gaussians
from hardsplat.io.formats.base import PIECE, exactly, scratch, spans

_BITS = 21  # of each coordinate


def morton_keys(means: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(N,) uint64: coordinates within the box low..high in 21 bits each, interleaved, x highest. Equal keys are equal cells."""
    span = np.where(high > low, high.astype(np.float64) - low, 1)
    cells = np.clip((means.astype(np.float64) - low) / span * (2**_BITS - 1), 0, 2**_BITS - 1).astype(np.uint64)
    return _spread(cells[:, 0]) << np.uint64(2) | _spread(cells[:, 1]) << np.uint64(1) | _spread(cells[:, 2])


def morton_places(means: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(N,) uint32, the place of each splat in Morton order; of equal keys the first comes first."""
    keys = np.empty(len(means), np.uint64)
    for at, n in spans(len(means)):
        keys[at : at + n] = morton_keys(means[at : at + n], low, high)
    order = np.argsort(keys, kind="stable")
    del keys
    places = np.empty(len(means), np.uint32)
    places[order] = np.arange(len(means), dtype=np.uint32)
    return places


def _spread(x: np.ndarray) -> np.ndarray:
    """Two zero bits between the bits of 21-bit numbers."""
    for shift, mask in ((32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3), (2, 0x1249249249249249)):
        x = (x | x << np.uint64(shift)) & np.uint64(mask)
    return x


class Sorted:
    """Splats in another order, on the disk: they come in pieces, each with its places, and go in pieces again.

    Places are dealt into buckets of PIECE as they come, and a bucket is put in order as it is read, so that memory holds a piece at a time.
    """

    def __init__(self, beside: Path, count: int, coefficients: int):
        self._count, self._k = count, coefficients
        self._width = 11 + 3 * coefficients
        self._row = np.dtype([("place", "<u4"), ("values", "<f4", self._width)])
        self._filled = np.zeros(-(-count // PIECE), np.int64)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(scratch(beside))

    def put(self, g: Gaussians, places: np.ndarray) -> None:
        """places: (N,) where each splat goes, 0 to count - 1; over all pieces each once."""
        table = np.empty(len(g), self._row)
        table["place"] = places
        v = table["values"]
        v[:, :3], v[:, 3:7], v[:, 7:10], v[:, 10], v[:, 11:] = g.means, g.quats, g.scales, g.opacities, g.sh.reshape(len(g), -1)
        bucket = places // PIECE
        table = table[np.argsort(bucket, kind="stable")]
        number = np.bincount(bucket, minlength=len(self._filled))
        at = 0
        for b in np.flatnonzero(number):
            self._file.seek((b * PIECE + self._filled[b]) * self._row.itemsize)
            self._file.write(table[at : at + number[b]].tobytes())
            at += number[b]
        self._filled += number

    def pieces(self) -> Iterator[Gaussians]:
        for first, n in spans(self._count):
            self._file.seek(first * self._row.itemsize)
            table = np.frombuffer(exactly(self._file, n * self._row.itemsize), self._row)
            v = np.empty((n, self._width), np.float32)
            v[table["place"] - first] = table["values"]
            yield Gaussians(v[:, :3], v[:, 3:7], v[:, 7:10], v[:, 10], v[:, 11:].reshape(n, self._k, 3), check=False)

    def close(self) -> None:
        self._stack.close()
