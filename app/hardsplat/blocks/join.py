"""Joins trained blocks: each splat comes from the block whose box has its mean, or from the seam
that was polished there. Memory holds a piece of a file at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.blocks.cut import Box
from hardsplat.blocks.plan import BlockPlan, SceneBlock
from hardsplat.io.splats import open_splats, save_stream
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.folder import write_json

TILES, INDEX = "tiles", "tiles.json"


@dataclass(frozen=True)
class SplatSource:
    """Splats of a file: those in `box`, or all of them, that lie in none of `without`."""

    file: Path
    box: Box | None = None
    without: tuple[Box, ...] = ()

    def pieces(self, plan: BlockPlan, block: SceneBlock) -> Iterator[Gaussians]:
        """Those of them that a block owns."""
        for piece in open_splats(self.file).pieces():
            places = plan.places(piece.means)
            kept = block.box.holds(places)
            if self.box:
                kept &= self.box.holds(places)
            for box in self.without:
                kept &= ~box.holds(places)
            yield piece[kept]


def tile_of(folder: Path, name: str) -> Path:
    """The file of the splats that a block owns."""
    return folder / TILES / f"{name}.ply"


def join(plan: BlockPlan, sources: Sequence[Sequence[SplatSource]], folder: Path) -> int:
    """Writes the splats that each block owns to tiles/NAME.ply, all of them to splats.ply, and
    tiles.json with counts and bounds; returns how many splats there are.

    sources: of each block's splats, in the plan's order. Raises UserError for a file that cannot be
    read or written.
    """
    tiles, rows = [], []
    for block, own in zip(plan.blocks, sources):
        tile, owned = tile_of(folder, block.name), _owned(plan, block, own)
        count, low, high = _survey(owned())
        rows.append({"file": f"{TILES}/{tile.name}", "splats": count, "low": low, "high": high})
        if count:
            save_stream(tile, replace(open_splats(own[0].file), count=count, pieces=owned))
            tiles.append(tile)
        else:
            tile.unlink(missing_ok=True)
    if not tiles:
        raise UserError(f"{folder}: no block has a splat inside its box")
    streams = [open_splats(tile) for tile in tiles]
    total = sum(stream.count for stream in streams)
    pieces = lambda: (piece for stream in streams for piece in stream.pieces())  # noqa: E731
    save_stream(folder / "splats.ply", replace(streams[0], count=total, pieces=pieces))
    write_json(folder / INDEX, {"axes": plan.axes.tolist(), "tiles": rows})
    return total


def _owned(plan: BlockPlan, block: SceneBlock, sources: Sequence[SplatSource]):
    return lambda: (piece for source in sources for piece in source.pieces(plan, block))


def _survey(pieces: Iterator[Gaussians]) -> tuple[int, list, list]:
    """How many splats there are, and the bounds of their means, world units."""
    count, low, high = 0, np.full(3, np.inf), np.full(3, -np.inf)
    for piece in pieces:
        count += len(piece)
        if len(piece):
            low = np.minimum(low, piece.means.min(axis=0))
            high = np.maximum(high, piece.means.max(axis=0))
    return (count, low.tolist(), high.tolist()) if count else (0, [], [])
