"""Whether the backward draw takes cells of the canvas in turns, so that splats which wait for each other are far apart in it: files that fill <drawn>."""

from dataclasses import dataclass

from hardsplat.variants.ordering import Ordering


@dataclass(frozen=True)
class Cells:
    slot: str
    side: int  # of a cell, px; 0 for one list of all splats
    needs: tuple[str, ...]
    note: str

    def goes_with(self, ordering: Ordering) -> bool:
        return not (self.side and ordering.listed)  # where no fragment waits


CELLS = {
    "none": Cells("draw/drawn_all.glsl", 0, (), "every splat once, whatever it covers"),
    "16": Cells("draw/drawn_cells.glsl", 16, (), "cells of 16 px in turns, for images of few pixels"),
    "64": Cells("draw/drawn_cells.glsl", 64, (), "cells of 64 px in turns, a splat once for each that its box touches (rectangle and box)"),
}
