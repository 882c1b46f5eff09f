"""The field of a distorting lens: which rays it maps into its picture, one to one, found on a polar
grid of rays around its axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsplat.model.camera import STEEPEST, Camera

_RINGS, _DIRECTIONS = 179, 120  # of the grid: half a degree apart, and three
_MARGIN = 2  # rings before one that folds, which lies between two
_BEYOND = 2.0  # times as far from the axis as the border of a picture: outside, with all chords


@dataclass(frozen=True)
class Field:
    """limits: (D,) x / z and y / z of the farthest ray, by direction, from +x towards +y. rim:
    (D, 2) where these rays lie, px; outside the picture where it ends before they do.

    folded: rays that are farther out come back within the picture. steep: the picture goes on
    beyond the steepest rays that can be drawn.
    """

    limits: np.ndarray
    rim: np.ndarray
    folded: bool
    steep: bool

    @property
    def whole(self) -> bool:
        """Whether every pixel of the picture has a ray."""
        return not (self.folded or self.steep)

    def limit(self, rays: np.ndarray) -> np.ndarray:
        """(N,) length of the farthest ray in the direction of each of (N, 2)."""
        turns = np.arctan2(rays[:, 1], rays[:, 0]) / (2 * np.pi) * _DIRECTIONS
        return np.interp(turns, np.arange(_DIRECTIONS), self.limits, period=_DIRECTIONS)


def field_of(camera: Camera) -> Field:
    """camera: one that distorts."""
    r = np.tan(np.radians(np.linspace(0, STEEPEST, _RINGS)))
    turn = np.linspace(0, 2 * np.pi, _DIRECTIONS, endpoint=False)
    rays = r[:, None, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    at = pixels_of(camera, rays)
    size = camera.width, camera.height
    with np.errstate(invalid="ignore"):
        outside = np.logical_not(((at >= 0) & (at <= size)).all(axis=-1))
        along, around = np.diff(at, axis=0), np.roll(at, -1, axis=1) - np.roll(at, 1, axis=1)
        bad = np.logical_not(_cross(along, around[1:]) > 0)  # where it is not finite, too
    leaves, folds = _first(outside), _first(bad) + 1
    ends, steep = leaves < folds, np.minimum(leaves, folds) >= _RINGS
    last = np.where(ends, leaves - 1, np.where(steep, _RINGS - 1, folds - _MARGIN)).clip(0)
    rim, centre = at[np.where(ends, leaves, last), np.arange(_DIRECTIONS)], camera.K[:2, 2]
    rim = np.where(ends[:, None], centre + _BEYOND * (rim - centre), rim)
    return Field(r[last], rim, bool((~ends & ~steep).any()), bool(steep.any()))


def pixels_of(camera: Camera, rays: np.ndarray) -> np.ndarray:
    """(..., 2) px where a distorting camera puts rays (..., 2), x / z and y / z; not finite where
    its model is not."""
    assert camera.distortion
    with np.errstate(all="ignore"):
        bent = camera.distortion(rays.reshape(-1, 2)).reshape(rays.shape)
    return bent * np.diag(camera.K)[:2] + camera.K[:2, 2]


def is_regular(grid: np.ndarray) -> bool:
    """Whether a map that is sampled at a grid, (H, W, 2), does not fold: its Jacobian is positive
    everywhere."""
    with np.errstate(invalid="ignore"):
        return bool((_cross(np.diff(grid, axis=1)[:-1], np.diff(grid, axis=0)[:, :-1]) > 0).all())


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _first(wrong: np.ndarray) -> np.ndarray:
    """(D,) index of the first True of each column of (R, D), R without one."""
    return np.where(wrong.any(axis=0), wrong.argmax(axis=0), len(wrong))
