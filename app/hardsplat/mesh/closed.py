"""Fields whose surface is closed: what no camera saw is solid.

Space that a view sees through is free (Curless & Levoy 1996, section 4).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.ndimage import binary_dilation

from hardsplat.base.errors import UserError
from hardsplat.mesh.field import BLOCK, SOLID, Field
from hardsplat.mesh.views import DepthView

_MOST = 1 << 27  # blocks of the box around surfaces, a byte each
_AROUND = np.ones((3, 3, 3), bool)


def closed_field(views: Iterable[DepthView], voxel: float, near: np.ndarray) -> Field:
    """Fuses views into a field that says of every place whether it is free or solid. near: (B, 3),
    blocks near what is seen.

    Blocks where free and solid space meet far from what is seen are added to these. Raises
    UserError where voxels are too small for the box around them.
    """
    low, high = near.min(axis=0) - 2, near.max(axis=0) + 3
    shape = high - low
    if np.prod(shape, dtype=float) > _MOST:
        raise UserError(f"--watertight: voxels of {voxel:g} are too small for a box of this size")
    inside, free = np.zeros(shape, bool), np.zeros(shape, bool)
    inside[tuple((near - low).T)] = True
    others = np.argwhere(~inside)
    centres = (others + low + 0.5) * (BLOCK * voxel)
    seen = np.zeros(len(others), bool)
    for view in views:
        left = np.flatnonzero(~seen)
        which, (x, y), z = view.camera.pixels(centres[left])
        depth = view.depth[y, x]
        seen[left[which[(depth == 0) | (z < depth)]]] = True
    free[tuple(others[seen].T)] = True
    for axis in range(3):  # nothing is beyond the box
        np.moveaxis(free, axis, 0)[[0, -1]] = True
    free &= ~inside
    solid = ~free & ~inside
    mixed = binary_dilation(free, _AROUND) & binary_dilation(solid, _AROUND) & ~inside
    field = Field(voxel, np.argwhere(inside | mixed) + low, (low, free))
    field.fuse(views)
    field.value[field.weight == 0] = SOLID
    field.weight[:] = np.inf  # all is known
    return field
