"""Streamed SOG version 1 of PlayCanvas: `lod-meta.json`, a tree of boxes, whose leaves name a run
of splats of a SOG chunk for each level of detail.

Layout of https://developer.playcanvas.com/user-manual/gaussian-splatting/formats/streamed-sog.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base, sog
from hardsplat.io.formats.base import COEFFICIENTS, SplatStream, reading
from hardsplat.model.gaussians import Gaussians

NAME = "lod-meta.json"
MOST_BYTES = 16 << 20  # of lod-meta.json; 100 M splats take half a megabyte
MOST_LEVELS, MOST_DEPTH, MOST_LEAVES = 16, 64, 1 << 16
_MOST_SPLATS = 1 << 40


@dataclass(frozen=True)
class StreamedTree:
    """The leaves of a streamed SOG, checked.

    bounds: (leaves, 2, 3) lowest and highest corner, world units. file, first, count: (leaves,
    levels) int64, the run of each level, finest first; file is -1 and count 0 where a leaf has no
    such level. errors: (leaves, levels) float64, how far a level is from the finest; where the
    file has none, from counts. files: meta.json of chunks. extra: what hardsplat adds for its page.
    """

    path: Path
    files: tuple[Path, ...]
    bounds: np.ndarray
    file: np.ndarray
    first: np.ndarray
    count: np.ndarray
    errors: np.ndarray
    environment: Path | None
    extra: dict[str, Any]

    @property
    def levels(self) -> int:
        return self.count.shape[1]

    @cached_property
    def sizes(self) -> np.ndarray:
        """(files,) splats of each chunk."""
        used = self.file >= 0
        return np.bincount(self.file[used], self.count[used], len(self.files)).astype(np.int64)

    def finest(self) -> np.ndarray:
        """(leaves,) the finest level that each leaf has."""
        return (self.count > 0).argmax(axis=1)

    def chunk(self, number: int) -> SplatStream:
        """Raises UserError where it is damaged, or has other splats than the tree names."""
        stream, wanted = sog.read(self.files[number]), self.sizes[number]
        if stream.count != wanted:
            what = f"has {stream.count:,} splats, and {NAME} names {wanted}"
            raise UserError(f"{self.files[number]}: {what}; damaged")
        return stream


def read(path: Path) -> SplatStream:
    """The finest level of every leaf, and the environment."""
    tree = read_tree(path)
    levels = tree.finest()[:, None]
    file, first, count = (
        np.take_along_axis(values, levels, axis=1)[:, 0]
        for values in (tree.file, tree.first, tree.count)
    )
    used = np.unique(file)
    streams = [tree.chunk(number) for number in used]
    around = [sog.read(tree.environment)] if tree.environment else []
    degree = max(stream.sh_degree for stream in [*streams, *around])

    def pieces() -> Iterator[Gaussians]:
        for number, stream in zip(used, streams):
            wanted = np.zeros(stream.count, bool)
            for start, n in zip(first[file == number], count[file == number]):
                wanted[start : start + n] = True
            for span, piece in base.placed(stream.pieces()):
                if (which := wanted[span]).any():
                    yield _of_degree(piece if which.all() else piece[which], degree)
        for stream in around:
            yield from (_of_degree(piece, degree) for piece in stream.pieces())

    total = int(count.sum()) + sum(stream.count for stream in around)
    return SplatStream(total, degree, pieces, streams[0].antialiased)


def size(path: Path) -> int:
    """Bytes of all files that a lod-meta.json names, and its own."""
    tree = read_tree(path)
    folders = {file.parent for file in (*tree.files, *filter(None, [tree.environment]))}
    return base.size_of(path) + sum(map(sog.folder_bytes, folders))


def _of_degree(g: Gaussians, degree: int) -> Gaussians:
    """The same splats, with zeros for SH bands that they lack."""
    missing = COEFFICIENTS[degree] - g.sh.shape[1]
    if missing:
        g.sh = np.pad(g.sh, ((0, 0), (0, missing), (0, 0)))
    return g


def read_tree(path: Path) -> StreamedTree:
    """Raises UserError for anything that a writer of version 1 cannot have written: numbers out of
    range, runs that overlap, files that are not there or lie elsewhere."""
    with reading(path):
        if base.size_of(path) > MOST_BYTES:
            raise UserError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; damaged")
        meta = json.loads(path.read_bytes())
        version = meta.get("version", 1)
        if version != 1:
            raise UserError(f"{path}: streamed SOG version {version!r}; hardsplat reads version 1")
        levels = _whole("lodLevels", meta["lodLevels"], 1, MOST_LEVELS)
        files = tuple(_inside(path, name) for name in _listed("filenames", meta["filenames"]))
        leaves = list(_leaves(meta["tree"]))
        bounds = np.array([_bounds(leaf["bound"]) for leaf in leaves])
        runs = np.array([_runs(leaf["lods"], levels, len(files)) for leaf in leaves])
        file, first, count = np.moveaxis(runs, 2, 0)
        _check_runs(file, first, count, len(files))
        errors = _errors(leaves, count) if meta.get("lodErrors") is True else _guessed(count)
        around = meta.get("environment")
        environment = _inside(path, around) if around is not None else None
        extra = meta.get("hardsplat", {})
        _require(isinstance(extra, dict), "hardsplat is no object")
        return StreamedTree(path, files, bounds, file, first, count, errors, environment, extra)


def _require(good: bool, what: str) -> None:
    if not good:
        raise ValueError(what)


def _whole(name: str, value: object, low: int, high: int) -> int:
    good = type(value) is int and low <= value <= high
    _require(good, f"{name} is {str(value)[:40]}, expected a whole number of {low} to {high}")
    return value  # type: ignore[return-value]


def _listed(name: str, value: object) -> list:
    _require(isinstance(value, list) and 1 <= len(value) <= MOST_LEAVES, f"{name} is no list")
    return value  # type: ignore[return-value]


def _inside(path: Path, name: object) -> Path:
    """The meta.json of a chunk, in a folder below that of lod-meta.json."""
    what = f"names {str(name)[:80]!r}, which is no meta.json below its folder"
    _require(isinstance(name, str) and not set(name) & set("\\:\0"), what)
    parts = PurePosixPath(name).parts  # type: ignore[arg-type]
    _require(parts[-1:] == (sog.META,) and not {"..", "/"} & set(parts), what)
    file = path.parent.joinpath(*parts)
    _require(file.is_file() and file.resolve().is_relative_to(path.parent.resolve()), what)
    return file


def _leaves(root: object) -> Iterator[dict]:
    """Leaves from left to right, by a stack, so that a deep tree is refused in one line."""
    stack, found = [(root, 0)], 0
    while stack:
        node, depth = stack.pop()
        _require(isinstance(node, dict) and depth <= MOST_DEPTH, "a node of the tree is damaged")
        children = node.get("children")  # type: ignore[attr-defined]
        if children is None:
            found += 1
            _require(found <= MOST_LEAVES, f"its tree has more than {MOST_LEAVES} leaves")
            yield node  # type: ignore[misc]
            continue
        pair = isinstance(children, list) and len(children) == 2
        _require(pair, "a node of the tree has other than two children")
        stack += [(child, depth + 1) for child in reversed(children)]


def _bounds(bound: dict) -> np.ndarray:
    corners = np.array([bound["min"], bound["max"]], np.float64)
    good = corners.shape == (2, 3) and np.isfinite(corners).all()
    _require(bool(good and (corners[0] <= corners[1]).all()), "the bounds of a leaf are damaged")
    return corners


def _runs(lods: dict, levels: int, files: int) -> np.ndarray:
    """(levels, 3) file, first and number of splats."""
    _require(isinstance(lods, dict) and len(lods) > 0, "a leaf has no level")
    out = np.tile([-1, 0, 0], (levels, 1))
    for key, run in lods.items():
        _require(key.isdecimal() and len(key) < 4 and int(key) < levels, f"level {key[:40]!r}")
        out[int(key)] = (
            _whole("file", run["file"], 0, files - 1),
            _whole("offset", run["offset"], 0, _MOST_SPLATS),
            _whole("count", run["count"], 1, _MOST_SPLATS),
        )
    return out


def _check_runs(file: np.ndarray, first: np.ndarray, count: np.ndarray, files: int) -> None:
    """Runs are all of their chunk, and none has a splat twice."""
    used = file.ravel() >= 0
    order = np.lexsort((first.ravel()[used], file.ravel()[used]))
    file, first, count = (values.ravel()[used][order] for values in (file, first, count))
    _require(len(np.unique(file)) == files, "a chunk is named and not used")
    begins = np.diff(file, prepend=-1) > 0
    after = np.where(begins, 0, np.roll(first + count, 1))
    _require(bool((first == after).all()), "runs of splats overlap, or leave splats of a chunk out")


def _errors(leaves: list[dict], count: np.ndarray) -> np.ndarray:
    errors = np.array([leaf["errors"] for leaf in leaves], np.float64)
    good = errors.shape == count.shape and np.isfinite(errors).all() and (errors >= 0).all()
    _require(bool(good), "the errors of a leaf are damaged")
    return np.maximum.accumulate(errors, axis=1)


def _guessed(count: np.ndarray) -> np.ndarray:
    """Errors that follow from counts alone: the distance between splats, in that of the finest."""
    most = count.max(axis=1, keepdims=True)
    return np.maximum.accumulate(np.sqrt(most / np.maximum(count, 1)) - 1, axis=1)
