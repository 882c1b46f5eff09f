"""What the ways of drawing backward have in common: a canvas in blocks of pixels, each drawn by one fragment."""

from __future__ import annotations

from dataclasses import dataclass

from hardsplat.raster.cells import Grid
from hardsplat.raster.draws import blocks_of
from hardsplat.raster.rows import Rows


@dataclass(frozen=True)
class Blocked:
    """Of a canvas of width x height px."""

    rows: Rows
    width: int
    height: int

    @property
    def grid(self) -> Grid | None:
        """Cells that the draw takes in turns; None where it takes all splats."""
        return None

    @property
    def _blocks(self) -> tuple[int, int]:
        """Across and down."""
        return blocks_of(self.rows.block, self.width, self.height)
