"""Lists of splats by cell of the canvas, for a backward draw that takes cells in turns."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

CELLS = Subsystem(
    "cells",
    "lists of splats by cell of the canvas and depth segment",
    constants={
        "MOST_CELLS": Constant(255, "uint", "cells in a row or column of the canvas, whose numbers have 8 bits"),
        "MOST_LISTS": Constant(4096, "uint", "lists, which a workgroup each makes"),
    },
    structs={
        "CellList": (
            Field("splats", "uint", "splats in it"),
            Field("start", "uint", "first of them in cell_members"),
            Field("share", "uint", "of the rounds of the draw that it takes part in, of 2^32"),
        ),
    },
    buffers=(
        BufferSpec(26, "cell_reaches", "uint", ("visible",), "of visible splats, nearest first: first and last column and row of the cells that they touch, 8 bits each"),
        BufferSpec(27, "cell_lists", "CellList", ("lists",), "a list for each cell of each depth segment"),
        BufferSpec(28, "cell_members", "uint", ("pairs",), "ranks of the splats of all lists, nearest first in each"),
        BufferSpec(29, "cell_turns", "uvec2", ("pairs",), "rank and list of what is drawn, in the order of the draw"),
    ),
    uses=("core",),
)
