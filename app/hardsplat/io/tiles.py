"""Tiles of a joined scene, as leaves of a tree with one level: see hardsplat.blocks.join."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats.base import SplatStream, reading
from hardsplat.io.formats.streamed_sog import StreamedTree
from hardsplat.io.splats import open_splats

INDEX = "tiles.json"
MOST_TILES, MOST_BYTES = 1 << 12, 1 << 22


class TileTree(StreamedTree):
    """Each tile is a leaf, whose splats are in a file of their own."""

    def chunk(self, number: int) -> SplatStream:
        stream = open_splats(self.files[number])
        if stream.count != self.sizes[number]:
            what = f"has {stream.count:,} splats, and {INDEX} names {self.sizes[number]}"
            raise UserError(f"{self.files[number]}: {what}; join the blocks again")
        return stream


def read_tiles(folder: Path) -> TileTree:
    """Raises UserError where tiles.json is damaged or names files elsewhere."""
    path = folder / INDEX
    with reading(path):
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("it is too large")
        rows = [row for row in json.loads(path.read_bytes())["tiles"] if row["splats"]]
        if not 1 <= len(rows) <= MOST_TILES:
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
