"""What there is to look at in a scene: its middle, which way is up, where its cameras stand. Paths,
windows and pages begin from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians

PARALLEL = 1e-3  # mean squared sine of the axes' spread below which they meet nowhere in particular


@dataclass(frozen=True)
class SceneBounds:
    """What a path is around. centre: world units. up: unit vector. positions, forwards: (V, 3) of
    the scene's cameras, V = 0 where there are none.

    reach: distance from the centre within which most splats are.
    """

    centre: np.ndarray
    up: np.ndarray
    positions: np.ndarray
    forwards: np.ndarray
    reach: float


def scene_bounds(
    gaussians: Gaussians, cameras: Sequence[Camera] = (), up: np.ndarray | None = None
) -> SceneBounds:
    """up: world direction; by default that of the cameras, or -y, which is COLMAP's."""
    middle, reach = _middle(gaussians)
    if not cameras:
        up, none = np.array([0.0, -1.0, 0.0]) if up is None else up, np.empty((0, 3))
        return SceneBounds(middle, unit(up), none, none, reach)
    positions = np.array([c.position for c in cameras])
    forwards = np.array([c.w2c[2, :3] for c in cameras])
    centre = nearest_to_axes(positions, forwards, gaussians.means)
    up = up_of(cameras) if up is None else unit(up)
    return SceneBounds(centre, up, positions, forwards, reach)


def up_of(cameras: Sequence[Camera]) -> np.ndarray:
    """(3,) the unit vector that their images have up, in the mean."""
    downs = np.array([c.w2c[1, :3] for c in cameras])
    up = -downs.mean(axis=0)
    return unit(up if np.linalg.norm(up) > 1e-3 else -downs[0])  # that lie in all directions


def _middle(gaussians: Gaussians) -> tuple[np.ndarray, float]:
    """Median of the means that can be seen, and the distance from it within which four fifths of
    them are."""
    finite = np.isfinite(gaussians.means).all(axis=1)
    seen = finite & (gaussians.opacities > 0.1)
    means = gaussians.means[seen if seen.any() else finite].astype(np.float64)
    if not len(means):
        return np.zeros(3), 1.0
    middle = np.median(means, axis=0)
    return middle, max(float(np.quantile(np.linalg.norm(means - middle, axis=1), 0.8)), 1e-6)


def nearest_to_axes(positions: np.ndarray, forwards: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The point with the least sum of squared distances from the cameras' axes; where these are
    parallel or it is behind them, the point on the mean axis at the median depth of the splats."""
    across = np.eye(3) - forwards[:, :, None] * forwards[:, None, :]
    A = across.mean(axis=0)
    if np.linalg.eigvalsh(A)[0] > PARALLEL:
        centre = np.linalg.solve(A, np.einsum("nij,nj->i", across, positions) / len(positions))
        if np.median(np.einsum("ni,ni->n", centre - positions, forwards)) > 0:
            return centre
    forward = forwards.mean(axis=0)
    forward = unit(forward) if np.linalg.norm(forward) > 1e-3 else forwards[0]
    depths = (means[np.isfinite(means).all(axis=1)] - positions.mean(axis=0)) @ forward
    depths = depths[depths > 0]
    return positions.mean(axis=0) + forward * (np.median(depths) if len(depths) else 1.0)


def look_at(position: np.ndarray, target: np.ndarray, up: np.ndarray) -> np.ndarray:
    """(4, 4) world to camera."""
    forward = unit(target - position)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-6:  # straight up or down
        right = np.cross(forward, np.roll(up, 1) + [0.1, 0.2, 0.3])
    right = unit(right)
    w2c = np.eye(4)
    w2c[:3, :3] = right, np.cross(forward, right), forward
    w2c[:3, 3] = -w2c[:3, :3] @ position
    return w2c


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def spread(count: int, most: int) -> np.ndarray:
    """Indices of at most `most` of `count` things, evenly over all of them."""
    if not count:
        return np.zeros(0, int)
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
