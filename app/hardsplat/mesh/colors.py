"""Colours of points on a surface, from the pictures of the cameras that see them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.spatial import cKDTree

from hardsplat.mesh.views import DepthView, pixels_of

_STEEPEST = 0.1  # cosine of the angle at which a view still counts
# of (cosine / distance): near views from straight ahead decide, and others blend in smoothly
_POWER = 4


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
    bottom, right = image.shape[0] - 1, image.shape[1] - 1
    x, y = np.clip(x - 0.5, 0, right), np.clip(y - 0.5, 0, bottom)
    left, top = x.astype(int), y.astype(int)
    u, v = (x - left)[:, None], (y - top)[:, None]
    right, bottom = np.minimum(left + 1, right), np.minimum(top + 1, bottom)
    above = image[top, left] * (1 - u) + image[top, right] * u
    return above * (1 - v) + (image[bottom, left] * (1 - u) + image[bottom, right] * u) * v
