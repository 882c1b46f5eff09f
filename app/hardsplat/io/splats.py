"""Splats from files and into files of any format, in one frame: RDF, as COLMAP's cameras and the
original 3DGS have it."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_ends, replacing, written
from hardsplat.io.formats import format_to_read, format_to_write, ply
from hardsplat.io.formats.base import (
    Lost,
    SplatStream,
    check_expansion,
    in_memory,
    of_planes,
    reading,
)
from hardsplat.io.formats.frames import rotated, to_ours
from hardsplat.io.formats.streamed_sog import StreamedTree
from hardsplat.model import morton
from hardsplat.model.gaussians import FIELDS, Gaussians
from hardsplat.tables.quantities import QUANTITIES

log = logging.getLogger(__name__)


def open_splats(path: str | Path) -> SplatStream:
    """Splats of a file in pieces, in hardsplat's frame, those that no renderer can draw still among
    them. Raises UserError for what is no file of splats."""
    row = format_to_read(path := Path(path))
    check_ends(path)
    splats = row.read(path)
    check_expansion(path, splats.count * 4 * (11 + 3 * (splats.sh_degree + 1) ** 2), row.size(path))
    return _rotated(splats, to_ours(row.frame))


def load_splats(path: str | Path) -> Gaussians:
    """All splats of a file in any format, or of a checkpoint of training.

    Splats that no renderer can draw are left out, and the log says how many there were. Raises
    UserError for a file that is missing, damaged, or without a splat that can be drawn.
    """
    splats = open_splats(path)
    dropped: Counter[str] = Counter()
    n, k, at = splats.count, (splats.sh_degree + 1) ** 2, 0
    shapes = ((n, 3), (n, 4), (n, 3), (n,), (n, k, 3))
    arrays = {name: np.empty(shape, np.float32) for name, shape in zip(FIELDS, shapes)}
    further = {name: QUANTITIES[name].shape(n, splats.sh_degree) for name in splats.extra}
    extra = {name: np.empty(shape, np.float32) for name, shape in further.items()}
    for piece in usable_pieces(splats, dropped):
        for name, array in arrays.items():
            array[at : at + len(piece)] = getattr(piece, name)
        for name, array in extra.items():
            array[:, at : at + len(piece)] = piece.extra[name]
        at += len(piece)
    log_dropped(path, splats, dropped)
    extra = {name: array[:, :at] for name, array in extra.items()}
    fields: dict[str, Any] = {name: array[:at] for name, array in arrays.items()}
    return Gaussians(**fields, extra=extra, check=False)


def save_splats(path: str | Path, gaussians: Gaussians, antialiased: bool = False) -> None:
    """Writes a file in the format that its name ends with; an earlier file stays whole until the
    new one is complete.

    Formats that are small only where neighbours follow each other get the splats in Morton order,
    the others in the order given. antialiased: the file says that the splats were trained so, if
    its format can. Raises UserError where it cannot be written.
    """
    row = format_to_write(path := Path(path))
    if not len(gaussians):
        raise UserError(f"{path}: there are no splats to write")
    if row.morton:
        gaussians = gaussians[morton.order(gaussians.means)]
    save_stream(path, in_memory(gaussians, antialiased))


def save_stream(path: Path, splats: SplatStream) -> None:
    """Writes splats in the order of their pieces, as `save_splats` does."""
    row = format_to_write(path)
    note_filter(path, splats.antialiased)
    with written(path), replacing(path) as partial:
        lost = row.write(partial, _rotated(splats, to_ours(row.frame).T))
    log_lost(path, splats.count, lost)


def save_planes(
    path: str | Path,
    planes: Mapping[str, np.ndarray],
    antialiased: bool = False,
    durable: bool = True,
) -> None:
    """A .ply of splats from their trained values, (planes, N, width) by name, see save_splats.
    durable: see replacing."""
    with written(path := Path(path)), replacing(path, durable) as partial:
        ply.write(partial, of_planes(planes, antialiased))


def _rotated(splats: SplatStream, rotation: np.ndarray) -> SplatStream:
    pieces = lambda: (rotated(g, rotation) for g in splats.pieces())  # noqa: E731
    return replace(splats, pieces=pieces)


def note_filter(path: Path, antialiased: bool) -> None:
    """Warns where splats were trained with the 2D filter and their format cannot say so."""
    if antialiased and not format_to_write(path).keeps_filter:
        bold = "it cannot say that its splats need the 2D filter"
        log.warning("%s: %s, without which they are drawn too bold", path, bold)


def is_antialiased(path: str | Path) -> bool:
    """Whether a file says that its splats were trained with --antialiased. Raises UserError for
    what is no file of splats."""
    return open_splats(path).antialiased


# -- splats that cannot be drawn


def usable_pieces(splats: SplatStream, dropped: Counter) -> Iterator[Gaussians]:
    """Pieces without the splats that no renderer can draw, which are counted by what is wrong with
    them."""
    for piece in splats.pieces():
        good = faults(piece, dropped)
        yield piece if good.all() else piece[good]


def faults(g: Gaussians, dropped: Counter) -> np.ndarray:
    """(N,) bool, which can be drawn. Counts the others in `dropped` by the first thing that is
    wrong with them."""
    n, finite = len(g), np.isfinite(g.opacities)
    for values in (g.means, g.quats, g.sh.reshape(n, -1)):
        finite &= np.isfinite(values).all(axis=1)
    for values in g.extra.values():
        finite &= np.isfinite(values).all(axis=(0, 2))
    wrong = {
        "NaN or infinite numbers": ~finite,
        "scales that are NaN or beyond float32": ~np.isfinite(g.scales).all(axis=1),
        "a rotation of zeros": np.all(g.quats == 0, axis=1),
        "negative scales": np.any(g.scales < 0, axis=1),
        "an opacity outside 0..1": (g.opacities < 0) | (g.opacities > 1),
    }
    good = np.ones(n, bool)
    for what, bad in wrong.items():
        dropped[what] += int((bad & good).sum())
        good &= ~bad
    return good


def log_dropped(path: str | Path, splats: SplatStream, dropped: Counter) -> None:
    """Logs what the reader of a file remarks, how many splats cannot be drawn, and why. Raises
    UserError where none is left."""
    for remark in splats.remarks:
        log.warning("%s: %s", path, remark)
    count = splats.count
    reasons = ", ".join(f"{number:,} with {what}" for what, number in dropped.items() if number)
    if dropped.total() == count:
        raise UserError(f"{path}: none of its {count:,} splats can be drawn: {reasons}")
    if reasons:
        lost = f"left out {dropped.total():,} of {count:,} splats"
        log.warning("%s: %s: %s", path, lost, reasons)


def log_lost(path: str | Path, count: int, lost: Lost | None) -> None:
    """Logs how many of the splats of a written file it does not hold as they were, and what
    helps."""
    for sentence in lost.told(count) if lost else ():
        log.warning("%s: %s", path, sentence)


# -- tiles of a joined scene, as leaves of a tree with one level: see hardsplat.blocks.join

TILES = "tiles.json"
_MOST_TILES, _MOST_BYTES = 1 << 12, 1 << 22


class TileTree(StreamedTree):
    """Each tile is a leaf, whose splats are in a file of their own."""

    def chunk(self, number: int) -> SplatStream:
        stream = open_splats(self.files[number])
        if stream.count != self.sizes[number]:
            what = f"has {stream.count:,} splats, and {TILES} names {self.sizes[number]}"
            raise UserError(f"{self.files[number]}: {what}; join the blocks again")
        return stream


def read_tiles(folder: Path) -> TileTree:
    """Raises UserError where tiles.json is damaged or names files elsewhere."""
    path = folder / TILES
    with reading(path):
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        rows = [row for row in json.loads(path.read_bytes())["tiles"] if row["splats"]]
        if not 1 <= len(rows) <= _MOST_TILES:
            raise ValueError(f"it names {len(rows)} tiles")
        files = tuple(folder / str(row["file"]) for row in rows)
        if any(not file.resolve().is_relative_to(folder.resolve()) for file in files):
            raise ValueError("it names a file elsewhere")
        bounds = np.array([[row["low"], row["high"]] for row in rows], np.float64)
        if bounds.shape != (len(rows), 2, 3) or not np.isfinite(bounds).all():
            raise ValueError("the bounds of a tile are damaged")
        numbers = np.arange(len(rows))[:, None]
        count = np.array([[row["splats"]] for row in rows], np.int64)
        zeros = np.zeros_like(count)
        return TileTree(path, files, bounds, numbers, zeros, count, zeros * 0.0, None, {})
