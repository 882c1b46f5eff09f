"""Which level of detail each leaf of a tree is drawn in, for a camera and a budget of splats. The
page's levels.js does the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardsplat.model.camera import Camera


class Sight(NamedTuple):
    """What a choice of levels depends on. view: (3, 4) world to camera. focal: px, the larger.
    near: world units. low, high: (2,) x / z and y / z of the edges of the image."""

    view: np.ndarray
    focal: float
    near: float
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, camera: Camera, near: float) -> Sight:
        fx, fy, cx, cy = camera.K[0, 0], camera.K[1, 1], camera.K[0, 2], camera.K[1, 2]
        low = np.array([-cx / fx, -cy / fy])
        high = np.array([(camera.width - cx) / fx, (camera.height - cy) / fy])
        return cls(camera.w2c[:3], max(fx, fy), near, low, high)


def choose_levels(
    bounds: np.ndarray, count: np.ndarray, errors: np.ndarray, sight: Sight, budget: int
) -> np.ndarray:
    """(leaves,) int64 level, -1 where the budget of splats has none for the leaf.

    bounds: (leaves, 2, 3). count, errors: (leaves, levels), finest first; count 0 where there is no
    such level. Every leaf gets its coarsest level, those in view first. Leaves in view are then
    refined where that takes most error away a splat, on the screen.
    """
    eye = -sight.view[:, :3].T @ sight.view[:, 3]
    out = np.maximum(np.maximum(bounds[:, 0] - eye, eye - bounds[:, 1]), 0)
    wide = np.linalg.norm(bounds[:, 1] - bounds[:, 0], axis=1)
    away = np.maximum(np.linalg.norm(out, axis=1), np.maximum(0.25 * wide, sight.near))
    px, seen = sight.focal / away, in_view(bounds, sight)
    levels, rows = count.shape[1], np.arange(len(count))
    coarsest = levels - 1 - (count[:, ::-1] > 0).argmax(axis=1)
    order = np.lexsort((rows, -px, ~seen))
    afforded = np.cumsum(count[order, coarsest[order]]) <= budget
    chosen = np.full(len(count), -1)
    chosen[order[afforded]] = coarsest[order[afforded]]
    left = budget - int(count[order, coarsest[order]][afforded].sum())

    with np.errstate(divide="ignore", invalid="ignore"):
        blur = np.minimum(1, (wide**2 * px**2)[:, None] / count)
    shown = errors * (px**2)[:, None] * blur
    steps: list[tuple[float, int, int, int]] = []
    for leaf in rows[seen & (chosen >= 0)]:
        before, best = int(chosen[leaf]), np.inf
        for level in range(before - 1, -1, -1):
            if not count[leaf, level]:
                continue
            cost = int(count[leaf, level] - count[leaf, before])
            gain = max(shown[leaf, before] - shown[leaf, level], 0) / max(cost, 1)
            best = min(best, gain)
            steps.append((best, leaf, level, max(cost, 0)))
            before = level
    for _, leaf, level, cost in sorted(steps, key=lambda step: -step[0]):
        if cost > left:
            break
        chosen[leaf] = level
        left -= cost
    return chosen


def in_view(bounds: np.ndarray, sight: Sight) -> np.ndarray:
    """(leaves,) bool, whether a box can be within the image: no plane of its edges has all corners
    outside."""
    which = (np.arange(8)[:, None] >> np.arange(3)) & 1
    corners = bounds[:, which, np.arange(3)]
    x, y, z = np.moveaxis(corners @ sight.view[:, :3].T + sight.view[:, 3], 2, 0)
    out = [z < sight.near]
    for values, low, high in zip((x, y), sight.low, sight.high):
        out += [values < low * z, values > high * z]
    return ~np.all(out, axis=2).any(axis=0)
