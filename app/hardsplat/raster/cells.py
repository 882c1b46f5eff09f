"""Lists of splats by cell of the canvas, and the order in which a draw takes them in turns.

A fragment that must wait for the one before it on the same pixel holds up those behind it. Splats that are neighbours in depth often overlap, so a draw in the order of depth
waits most of its time. Cells share no pixel: with a list of splats for each cell, and one splat of every list at a time, whoever must wait for each other is as many
splats apart as there are lists. Depth segments have canvases of their own, so each cell of each segment has a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardsplat import contract
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, allocate_all
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.rows import Rows

GROUP = contract.CONSTANTS["GROUP"]
MOST_CELLS, MOST_LISTS = contract.CONSTANTS["MOST_CELLS"], contract.CONSTANTS["MOST_LISTS"]
FIRST_ROOM = 2  # pairs of cell and splat that a splat has room for, before frames say how many there are


@dataclass(frozen=True)
class Grid:
    """Cells of side x side px on a canvas in depth segments."""

    side: int
    across: int
    down: int
    segments: int

    @classmethod
    def of(cls, rows: Rows, width: int, height: int, segments: int) -> Grid | None:
        """With cells of the size that the rows ask for, or twice, four times ... that where there were too many. None for rows without cells."""
        if not (side := rows.cells.side):
            return None
        while True:
            across, down = -(-width // side), -(-height // side)
            if max(across, down) <= MOST_CELLS and across * down * segments <= MOST_LISTS:
                return cls(side, across, down, segments)
            side *= 2

    @property
    def lists(self) -> int:
        return self.across * self.down * self.segments

    @property
    def spec(self) -> dict[str, int]:
        """Constants of a draw of cells."""
        return {"CELL": self.side, "CELLS_X": self.across, "CELLS_Y": self.down}

    def passes(self, rows: Rows) -> list[ComputePass]:
        """order, splats2d -> cell_turns."""
        cells, lists = self.spec, {**self.spec, "SEGMENTS": self.segments}
        reach = {**cells, "BLOCK_W": rows.block.width, "BLOCK_H": rows.block.height}
        counted = ("counts", "cell_reaches")
        return [
            ComputePass("cell reaches", "cells/reaches.comp", ("counts", "order", "splats2d"), ("cell_reaches",), reach),
            ComputePass("cell count", "cells/count.comp", counted, ("cell_lists",), lists),
            ComputePass("cell sum", "cells/sum.comp", ("counts", "cell_lists", "cell_members"), ("counts", "indirect", "cell_lists"), {**lists, "VERTICES": rows.shape.vertices}),
            ComputePass("cell list", "cells/list.comp", (*counted, "cell_lists"), ("cell_members",), lists),
            ComputePass("cell turns", "cells/turns.comp", ("cell_lists", "cell_members"), ("cell_turns",), lists),
        ]

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        recorder.run(run["cell reaches"], indirect="visible_groups")
        recorder.run(run["cell count"], threads=(self.lists * GROUP,))
        recorder.run(run["cell sum"], threads=(GROUP,))
        recorder.run(run["cell list"], threads=(self.lists * GROUP,))
        recorder.run(run["cell turns"], indirect="cell_rounds")

    def allocate(self, device: Device, capacity: int, room: int) -> dict[str, Buffer]:
        """For up to `capacity` splats and `room` pairs of cell and splat. Raises OutOfMemory with nothing allocated."""
        sizes = {"cell_reaches": capacity, "cell_lists": self.lists}
        return allocate_all(device, {name: n * contract.itemsize(name) for name, n in sizes.items()} | self.pair_bytes(room))

    def first_room(self, capacity: int) -> int:
        return FIRST_ROOM * capacity + self.lists

    def most(self, device: Device, capacity: int) -> int:
        """Pairs that there can be, or as many as a descriptor reaches."""
        return min(capacity * self.across * self.down, device.max_buffer // contract.itemsize("cell_turns"))

    def pair_bytes(self, room: int) -> dict[str, int]:
        """Bytes of so many pairs, by buffer."""
        return {name: room * contract.itemsize(name) for name in ("cell_members", "cell_turns")}
