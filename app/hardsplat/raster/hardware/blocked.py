"""What the ways of drawing backward have in common: a canvas in blocks of pixels, each drawn by one
fragment."""

from __future__ import annotations

from dataclasses import dataclass

from hardsplat.raster.hardware.draws import blocks_of
from hardsplat.raster.hardware.rows import Rows


@dataclass(frozen=True)
class Blocked:
    """A canvas of width x height px in depth segments.

    threshold: contributing lanes of a subgroup from which it is summed whole. scores: with draws of
    SCORES.
    """

    rows: Rows
    width: int
    height: int
    segments: int
    threshold: int
    scores: bool = False

    @property
    def _blocks(self) -> tuple[int, int]:
        """Across and down."""
        return blocks_of(self.rows.block, self.width, self.height)
