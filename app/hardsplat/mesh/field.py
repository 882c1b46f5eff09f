"""A truncated signed distance field in blocks of voxels around surfaces, fused from depth.

Curless & Levoy 1996; blocks by their place as Niessner et al. 2013.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from hardsplat.base.parallel import CORES
from hardsplat.mesh.views import DepthView, pixels_of, rays_of

BLOCK = 8  # voxels a side
BAND = 4.0  # voxels before and behind a surface in which distances are kept
# views that must have seen a voxel: where depth errs, one alone sees surfaces that are not there
_SEEN = 3
# weight of a view that sees past a voxel, of 1 for one that sees a surface near it. Depth that errs
# to the back says so of true surfaces, and nothing says the opposite: what is farther behind a
# surface than the band is unknown
_PAST = np.float32(0.3)
# value of solid places that no view saw. Not -1: where free and solid voxels alternate, marching
# cubes decide by products of values, which must not be equal
SOLID = np.float32(-0.75)
BYTES = (4 + 4 + 2) * BLOCK**3  # of a block: value, weight, and number of views
_SOME = 1024  # blocks that a thread takes at once
_REACH = 1 << 20  # blocks from the origin that a key can name
_SHIFTS = np.array([42, 21, 0])
OFFSETS = np.stack(np.meshgrid(*[np.arange(BLOCK)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
CORNERS = np.stack(np.meshgrid(*[(0, 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)


def keys_of(blocks: np.ndarray) -> np.ndarray:
    """(N,) int64 of blocks (N, 3) within _REACH of the origin, in the same order."""
    return ((blocks.astype(np.int64) + _REACH) << _SHIFTS).sum(axis=1)


def blocks_near(views: Iterable[DepthView], voxel: float, farthest: float) -> np.ndarray:
    """(B, 3) the blocks within the band of what views see up to `farthest` along their axes."""
    found = np.zeros(0, np.int64)
    for view in views:
        rays, origin = rays_of(view.camera)
        seen = (view.depth > 0) & (view.depth <= farthest)
        depth, rays = view.depth[seen][:, None].astype(np.float64), rays[seen]
        for step in (-BAND, 0.0, BAND):
            at = np.floor((origin + (depth + step * voxel) * rays) / (BLOCK * voxel))
            at = at[(np.abs(at) < _REACH).all(axis=1)]
            found = np.union1d(found, keys_of(at))
    return ((found[:, None] >> _SHIFTS) & (2 * _REACH - 1)) - _REACH


@dataclass(eq=False)
class Field:
    """voxel: side, world units. blocks: (B, 3), sorted by keys_of; voxel i of block b is at
    (BLOCK b + i) voxel.

    value: (B, BLOCK^3) float32, signed distance over the band, -1..1, positive before surfaces.
    weight: (B, BLOCK^3) float32, of value. views: (B, BLOCK^3) uint16, how many have seen it.

    free: the first block of a box, and (X, Y, Z) bool whether its blocks that have no voxels are
    free, else solid; outside of the box all are free. None: nothing is known of them.
    """

    voxel: float
    blocks: np.ndarray
    free: tuple[np.ndarray, np.ndarray] | None = None
    fused = 0  # views so far

    def __post_init__(self):
        shape = len(self.blocks), BLOCK**3
        self.value, self.weight = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.views = np.zeros(shape, np.uint16)

    def known(self, which: np.ndarray) -> np.ndarray:
        """(N, BLOCK^3) of blocks (N,) by index, whether enough views have seen their voxels."""
        return self.views[which] >= min(_SEEN, self.fused)

    def fuse(self, views: Iterable[DepthView]) -> None:
        """Adds what views see: the distance along their axes from a voxel to the surface behind
        its pixel. Pixels through which light passes say that nothing is there."""
        with ThreadPoolExecutor(CORES) as pool:
            for view in views:
                self.fused += 1
                near = self._seen(view)
                pieces = [near[i : i + _SOME] for i in range(0, len(near), _SOME)]
                list(pool.map(lambda piece, view=view: self._add(view, piece), pieces))

    def _seen(self, view: DepthView) -> np.ndarray:
        """Indices of blocks that have a corner in the image and not behind what it shows."""
        corners = (self.blocks[:, None] + CORNERS).reshape(-1, 3) * (BLOCK * self.voxel)
        which, (x, y), z = view.camera.pixels(corners)
        depth = view.depth[y, x]
        behind = (depth > 0) & (z > depth + (BAND + 2 * BLOCK) * self.voxel)
        return np.unique(which[~behind] // len(CORNERS))

    def _add(self, view: DepthView, near: np.ndarray) -> None:
        camera, voxel = view.camera, BLOCK * self.voxel
        R = camera.w2c[:3, :3]
        # of blocks, and within one; float32 from here on
        corners = (self.blocks[near] * voxel @ R.T + camera.w2c[:3, 3]).astype(np.float32)
        inside = (OFFSETS * self.voxel @ R.T).astype(np.float32)
        at = corners.T[:, :, None] + inside.T[:, None]
        x, y, known = pixels_of(camera, at)
        depth = view.depth[tuple(np.where(known, side, 0).astype(np.int64) for side in (y, x))]
        distance = (depth - at[2]) * np.float32(1 / (BAND * self.voxel))
        distance = np.where(depth > 0, np.minimum(distance, 1), 1)
        known &= distance > -1
        each = known * np.where(distance < 1, np.float32(1), _PAST)
        value, weight = self.value[near], self.weight[near] + each
        value += each * (distance - value) / np.maximum(weight, _PAST)
        self.value[near], self.weight[near] = value, weight
        self.views[near] += known

    def elsewhere(self, blocks: np.ndarray) -> np.ndarray:
        """(N,) 1 where blocks (N, 3) without voxels are free, SOLID where solid, 0 where
        unknown."""
        if self.free is None:
            return np.zeros(len(blocks), np.float32)
        low, free = self.free
        at = np.clip(blocks - low, 0, np.array(free.shape) - 1)  # the sides of the box are free
        return np.where(free[tuple(at.T)], np.float32(1), SOLID)
