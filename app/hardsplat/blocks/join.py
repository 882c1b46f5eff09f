"""Joins trained blocks: each splat comes from the block whose box has its mean. Memory holds a
piece of a file at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.blocks.plan import BlockPlan, SceneBlock
from hardsplat.io.splats import open_splats, save_stream
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.folder import write_json

TILES, INDEX = "tiles", "tiles.json"


def join(plan: BlockPlan, files: Sequence[Path], folder: Path) -> int:
    """Writes the splats that each block owns to tiles/NAME.ply, all of them to splats.ply, and
    tiles.json with counts and bounds; returns how many splats there are.

    files: the splats of each block, in the plan's order. Raises UserError for a file that cannot be
    read or written.
    """
    tiles, rows = [], []
    for block, file in zip(plan.blocks, files):
        tile = folder / TILES / f"{block.name}.ply"
        count, low, high = _survey(plan, block, file)
        rows.append({"file": f"{TILES}/{tile.name}", "splats": count, "low": low, "high": high})
        if count:
            owned = partial(_owned, plan, block, file)
            save_stream(tile, replace(open_splats(file), count=count, pieces=owned))
            tiles.append(tile)
    if not tiles:
        raise UserError(f"{folder}: no block has a splat inside its box")
    streams = [open_splats(tile) for tile in tiles]
    total = sum(stream.count for stream in streams)
    pieces = lambda: (piece for stream in streams for piece in stream.pieces())  # noqa: E731
    save_stream(folder / "splats.ply", replace(streams[0], count=total, pieces=pieces))
    write_json(folder / INDEX, {"axes": plan.axes.tolist(), "tiles": rows})
    return total


def _survey(plan: BlockPlan, block: SceneBlock, file: Path) -> tuple[int, list, list]:
    """How many splats of a file a block owns, and the bounds of their means, world units."""
    count, low, high = 0, np.full(3, np.inf), np.full(3, -np.inf)
    for piece in _owned(plan, block, file):
        count += len(piece)
        if len(piece):
            low = np.minimum(low, piece.means.min(axis=0))
            high = np.maximum(high, piece.means.max(axis=0))
    return (count, low.tolist(), high.tolist()) if count else (0, [], [])


def _owned(plan: BlockPlan, block: SceneBlock, file: Path) -> Iterator[Gaussians]:
    for piece in open_splats(file).pieces():
        yield piece[block.box.holds(plan.places(piece.means))]
