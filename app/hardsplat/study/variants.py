"""The tables of variants that the doctor lists and runs."""

from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.formats import FORMATS, MOMENT_FORMATS
from hardsplat.tables.gradients import ATOMICS, GRADIENTS, REDUCTIONS, TILE_BACKWARDS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, QUADS, SHAPES

# title, flag that chooses among the rows (None: chosen for you), rows
REGISTRIES = (
    ("target formats", "--format", FORMATS),
    ("blending", "--blending", BLENDINGS),
    ("ordering of fragments", "--ordering", ORDERINGS),
    ("reductions", "--reduction", REDUCTIONS),
    ("float atomics", "--atomics", ATOMICS),
    ("quads", None, QUADS),
    ("blocks of pixels", "--block", BLOCKS),
    ("shapes of splats", "--shape", SHAPES),
    ("backward pass of tiles", "--tile-backward", TILE_BACKWARDS),
    ("gradients", "--gradient", GRADIENTS),
    ("moments of Adam", "--moments", MOMENT_FORMATS),
    ("image fits", "fit --rasterizer", FIT_RASTERS),
)


def option_of(flag: str) -> str:
    """The option that a flag of the command line sets."""
    return flag.removeprefix("--").replace("-", "_")
