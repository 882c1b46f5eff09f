"""Sorting more splats than fit into memory, and dealing them into buckets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.io.formats.base import PIECE, exactly, scratch, spans
from hardsplat.model import morton
from hardsplat.model.gaussians import Gaussians
from hardsplat.tables import quantities


def morton_places(means: np.ndarray) -> np.ndarray:
    """(N,) uint32, the place of each splat in Morton order; of equal keys the first comes first."""
    places = np.empty(len(means), np.uint32)
    places[morton.order(means)] = np.arange(len(means), dtype=np.uint32)
    return places


@dataclass(frozen=True)
class Bucket:
    """Splats of a bucket on the disk. parts: (first byte, number) of each. k: SH coefficients of a
    channel."""

    path: Path
    parts: tuple[tuple[int, int], ...]
    k: int

    def __len__(self) -> int:
        return sum(n for _, n in self.parts)

    def read(self) -> Gaussians:
        """The splats, in the order in which they came. Threads and processes may call it."""
        width = 11 + 3 * self.k
        with self.path.open("rb") as file:
            values = []
            for place, n in self.parts:
                file.seek(place)
                values.append(np.frombuffer(exactly(file, 4 * width * n), np.float32))
        return _fields(np.concatenate(values).reshape(-1, width), self.k)


class Dealt:
    """Splats dealt into buckets in a new file, each of which is read at once.

    Memory holds HELD bytes, which are written in one piece, bucket by bucket.
    """

    HELD = 128 << 20

    def __init__(self, path: Path, sh_degree: int, buckets: int):
        self._k = (sh_degree + 1) ** 2
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._parts: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        self._path, self._file = path, path.open("xb")

    def put(self, g: Gaussians, bucket: np.ndarray) -> None:
        """bucket: (N,) where each splat goes."""
        fields = g.means, g.quats, g.scales, g.opacities[:, None], g.sh.reshape(len(g), -1)
        self._held.append((bucket, np.concatenate(fields, axis=1)))
        if sum(values.nbytes for _, values in self._held) >= self.HELD:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        bucket, values = (np.concatenate(parts) for parts in zip(*self._held))
        self._held.clear()
        order = np.argsort(bucket, kind="stable")
        number = np.bincount(bucket, minlength=len(self._parts))
        at = self._file.tell()
        for b in np.flatnonzero(number):
            self._parts[b].append((at, int(number[b])))
            at += values[0].nbytes * int(number[b])
        self._file.write(values[order].data)

    def buckets(self) -> list[Bucket]:
        """All of them, once the last splat has been put."""
        self._flush()
        self._file.flush()
        return [Bucket(self._path, tuple(parts), self._k) for parts in self._parts]

    def close(self) -> None:
        """Deletes the file."""
        self._file.close()
        self._path.unlink()


def _fields(values: np.ndarray, k: int, extra: dict[str, np.ndarray] | None = None) -> Gaussians:
    """values: (N, 11 + 3 k or more) means, quats, scales, opacity, k SH coefficients."""
    means, quats, scales, opacities, sh = np.split(values, [3, 7, 10, 11], axis=1)
    sh = sh[:, : 3 * k].reshape(len(values), k, 3)
    return Gaussians(means, quats, scales, opacities[:, 0], sh, extra or {}, check=False)


class Sorted:
    """Splats in another order, on the disk: they come in pieces, each with its places, and go in
    pieces again.

    Places are dealt into buckets of PIECE as they come, and a bucket is put in order as it is read,
    so that memory holds a piece at a time.
    """

    def __init__(self, target: Path, count: int, sh_degree: int, extra: tuple[str, ...] = ()):
        self._count, self._k = count, (sh_degree + 1) ** 2
        self._extra = {name: quantities.QUANTITIES[name].shape(-1, sh_degree) for name in extra}
        further = sum(planes * width for planes, _, width in self._extra.values())
        self._width = 11 + 3 * self._k + further
        self._record = np.dtype([("place", "<u4"), ("values", "<f4", self._width)])
        self._filled = np.zeros(-(-count // PIECE), np.int64)
        self._stack = ExitStack()
        self._file = self._stack.enter_context(scratch(target))

    def put(self, g: Gaussians, places: np.ndarray) -> None:
        """places: (N,) where each splat goes, 0 to count - 1; over all pieces each once."""
        table = np.empty(len(g), self._record)
        table["place"] = places
        fields = g.means, g.quats, g.scales, g.opacities[:, None], g.sh.reshape(len(g), -1)
        further = [g.extra[name].transpose(1, 0, 2).reshape(len(g), -1) for name in self._extra]
        table["values"] = np.concatenate([*fields, *further], axis=1)
        bucket = places // PIECE
        table = table[np.argsort(bucket, kind="stable")]
        number = np.bincount(bucket, minlength=len(self._filled))
        at = 0
        for b in np.flatnonzero(number):
            self._file.seek((b * PIECE + self._filled[b]) * self._record.itemsize)
            self._file.write(table[at : at + number[b]].tobytes())
            at += number[b]
        self._filled += number

    def pieces(self) -> Iterator[Gaussians]:
        for first, n in spans(self._count):
            self._file.seek(first * self._record.itemsize)
            table = np.frombuffer(exactly(self._file, n * self._record.itemsize), self._record)
            v = np.empty((n, self._width), np.float32)
            v[table["place"] - first] = table["values"]
            extra, at = {}, 11 + 3 * self._k
            for name, (planes, _, width) in self._extra.items():
                values = v[:, at : at + planes * width].reshape(n, planes, width)
                extra[name] = values.transpose(1, 0, 2)
                at += planes * width
            yield _fields(v, self._k, extra)

    def close(self) -> None:
        self._stack.close()
