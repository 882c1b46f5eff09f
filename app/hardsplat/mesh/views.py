"""What cameras see of a surface: depth and colour, which pixels points fall on, and colours of
points from the pictures of the cameras that see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from hardsplat.base.progress import through
from hardsplat.model.camera import Camera
from hardsplat.render.painter import Painter

DEPTHS = ("median", "surface")
_STEEPEST = 0.1  # cosine of the angle at which a view still counts
# of (cosine / distance): near views from straight ahead decide, and others blend in smoothly
_POWER = 4


class DepthView(NamedTuple):
    """What a pinhole sees. depth: (H, W) float32 along its axis, world units, 0 where light passes.
    color: (H, W, 3) uint8."""

    camera: Camera
    depth: np.ndarray
    color: np.ndarray


class SplatViews:
    """The views of cameras on splats, drawn again each time that they are gone through.

    painter: with the pictures PICTURES. depth: of DEPTHS.
    """

    PICTURES = ("image", *DEPTHS)

    def __init__(self, painter: Painter, cameras: Sequence[Camera], depth: str, quiet: bool):
        # splats are drawn as a pinhole sees them, whatever lens their photographs came through
        self.cameras = [Camera(c.w2c, c.K, c.width, c.height) for c in cameras]
        self._painter, self._depth, self._quiet = painter, depth, quiet

    def __len__(self) -> int:
        return len(self.cameras)

    def __iter__(self) -> Iterator[DepthView]:
        for camera in through(self.cameras, "mesh", self._quiet):
            depth = self._painter.values(self._depth, camera)
            yield DepthView(camera, depth, self._painter.draw("image", camera)[..., :3])


def rays_of(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """(H, W, 3) places of a pinhole's pixel centres at depth 1, from its own place (3,), in world
    units."""
    x = (np.arange(camera.width) + 0.5 - camera.K[0, 2]) / camera.K[0, 0]
    y = (np.arange(camera.height) + 0.5 - camera.K[1, 2]) / camera.K[1, 1]
    R = camera.w2c[:3, :3]
    return x[None, :, None] * R[0] + y[:, None, None] * R[1] + R[2], camera.position


def pixels_of(camera: Camera, at: np.ndarray) -> tuple[np.ndarray, ...]:
    """at: (3, ...) points in the frame of a pinhole -> x and y in its pixels (...), and whether the
    image holds them (...)."""
    ahead = at[2] > 0
    per = 1 / np.where(ahead, at[2], 1)
    x = at[0] * per * at.dtype.type(camera.K[0, 0]) + at.dtype.type(camera.K[0, 2])
    y = at[1] * per * at.dtype.type(camera.K[1, 1]) + at.dtype.type(camera.K[1, 2])
    return x, y, ahead & (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)


def colors_at(
    points: np.ndarray, normals: np.ndarray, views: Iterable[DepthView], slack: float
) -> np.ndarray:
    """(N, 3) float32 in 0..1 of points (N, 3) with unit normals (N, 3): means over the views whose
    depth is that of the point within `slack`. Points that no view sees are as the nearest that one
    does, gray where there is none."""
    total, weights = np.zeros((len(points), 3), np.float32), np.zeros(len(points), np.float32)
    for camera, depth, color in views:
        at = (points @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]).T
        x, y, inside = pixels_of(camera, at)
        which = np.flatnonzero(inside)
        seen = depth[y[which].astype(int), x[which].astype(int)]
        which = which[np.abs(seen - at[2, which]) < slack]
        away = camera.position - points[which]
        distance = np.linalg.norm(away, axis=1)
        cosine = np.einsum("ij,ij->i", away, normals[which]) / np.maximum(distance, 1e-12)
        which, distance = which[cosine > _STEEPEST], distance[cosine > _STEEPEST]
        weight = (cosine[cosine > _STEEPEST] * slack / distance) ** _POWER
        total[which] += weight[:, None] * bilinear(color, x[which], y[which])
        weights[which] += weight
    seen = weights > 0
    total[seen] /= 255 * weights[seen, None]
    if not seen.any():
        return np.full_like(total, 0.5)
    total[~seen] = total[seen][cKDTree(points[seen]).query(points[~seen])[1]]
    return total


def bilinear(image: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(N, 3) of an image (H, W, 3) at pixels x and y (N,), whose centres are at +0.5."""
    at = [np.clip(place - 0.5, 0, side - 1) for place, side in zip((y, x), image.shape)]
    found = [map_coordinates(each, at, np.float64, order=1) for each in np.moveaxis(image, 2, 0)]
    return np.stack(found, axis=1)
