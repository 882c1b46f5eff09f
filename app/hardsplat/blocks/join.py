"""Joins trained blocks: each splat comes from the block whose box has its mean, or from the seam
that was polished there. Records of files are copied as they are, and memory holds a piece of a file
at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, write_json, written
from hardsplat.blocks.cut import BlockBox
from hardsplat.blocks.plan import BlockPlan, SceneBlock
from hardsplat.io.formats import ply

TILES, INDEX = "tiles", "tiles.json"


@dataclass(frozen=True)
class SplatSource:
    """Splats of a file: those in `box`, or all of them, that lie in none of `without`."""

    file: Path
    box: BlockBox | None = None
    without: tuple[BlockBox, ...] = ()

    def records(self, plan: BlockPlan, block: SceneBlock) -> Iterator[np.ndarray]:
        """Those of them that a block owns, as the file has them."""
        for records in ply.Table(self.file, "vertex").pieces():
            places = plan.places(_means(records))
            kept = block.box.holds(places)
            if self.box:
                kept &= self.box.holds(places)
            for box in self.without:
                kept &= ~box.holds(places)
            yield records[kept]


def tile_of(folder: Path, name: str) -> Path:
    """The file of the splats that a block owns."""
    return folder / TILES / f"{name}.ply"


def join(plan: BlockPlan, sources: Sequence[Sequence[SplatSource]], folder: Path) -> int:
    """Writes the splats that each block owns to tiles/NAME.ply, all of them to splats.ply, and
    tiles.json with counts and bounds; returns how many splats there are.

    sources: of each block's splats, in the plan's order. Raises UserError for a file that cannot be
    read or written.
    """
    tiles, rows, total = [], [], 0
    for block, own in zip(plan.blocks, sources):
        tile, owned = tile_of(folder, block.name), partial(_owned, plan, block, own)
        count, low, high = _survey(owned())
        rows.append({"file": f"{TILES}/{tile.name}", "splats": count, "low": low, "high": high})
        if count:
            _write(tile, own[0].file, count, owned())
            tiles.append(tile)
            total += count
        else:
            tile.unlink(missing_ok=True)
    if not tiles:
        raise UserError(f"{folder}: no block has a splat inside its box")
    pieces = (records for tile in tiles for records in ply.Table(tile, "vertex").pieces())
    _write(folder / "splats.ply", tiles[0], total, pieces)
    write_json(folder / INDEX, {"axes": plan.axes.tolist(), "tiles": rows})
    return total


def _owned(
    plan: BlockPlan, block: SceneBlock, sources: Sequence[SplatSource]
) -> Iterator[np.ndarray]:
    return (records for source in sources for records in source.records(plan, block))


def _means(records: np.ndarray) -> np.ndarray:
    return ply.columns(records, ["x", "y", "z"])


def _write(path: Path, like: Path, count: int, pieces: Iterable[np.ndarray]) -> None:
    wanted = ply.Table(like, "vertex").dtype

    def checked(records: np.ndarray) -> np.ndarray:
        if records.dtype != wanted:
            raise UserError(
                f"{path}: some of its splats have other properties than those of {like}"
            )
        return records

    with written(path), replacing(path) as unfinished:
        ply.copy(unfinished, like, count, map(checked, pieces))


def _survey(pieces: Iterable[np.ndarray]) -> tuple[int, list, list]:
    """How many splats there are, and the bounds of their means, world units."""
    count, low, high = 0, np.full(3, np.inf), np.full(3, -np.inf)
    for records in pieces:
        count += len(records)
        if len(records):
            means = _means(records)
            low, high = np.minimum(low, means.min(axis=0)), np.maximum(high, means.max(axis=0))
    return (count, low.tolist(), high.tolist()) if count else (0, [], [])
