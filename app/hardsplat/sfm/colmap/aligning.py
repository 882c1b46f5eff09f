"""A model turned upright, and scaled to metres, by what photographs say of where they were taken
and how they were held.

World frame: -y is up, as in all of hardsplat; with positions, x is east and z is north, from the
middle of the photographs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pycolmap
from scipy.spatial.transform import Rotation

# metres by which positions may lie off: of surveying drones, drones, phones, phones between houses
_ERRORS = (0.5, 2.0, 8.0, 25.0)
_FEWEST, _SHARE = 4, 0.6  # positions that must agree; share of all
_CLEAR = 3.0  # spread of positions over their error, from which they tell scale and turns
_POLE = 10.0  # spreads of a line that poles on it are high, which keep its photographs upright
_LEVEL = np.sin(np.radians(10.0))  # by which the side of a picture may tilt, of most pictures
_HELD = 0.7  # share of the pictures that must be held so
_SPREAD = 0.05  # second moment of the pictures' sides, from which they tell the up direction
_TO_Y_DOWN = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # east, north, up -> x, y, z
_TELLS = 0.3  # mean component of photographs' tops, from which they tell which end is up
_ROUNDS = 20


def align(model: pycolmap.Reconstruction, taken: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Turns, scales and moves the model. taken: by name of the photograph, as Taken has it.

    Returns by: `gps`, `gravity` or `none`; note: what was done and why, a line; and with positions
    origin: latitude and longitude, degrees, and altitude, metres, of the world's origin; error:
    metres, median distance of photographs from their positions.
    """
    posed = sorted((i for i in model.images.values() if i.has_pose), key=lambda i: i.name)
    up, how = _up(posed, taken)
    by_gps = _by_positions(model, posed, taken, up, how)
    if isinstance(by_gps, dict):
        return by_gps
    if up is None:
        return dict(by="none", note=f"{by_gps}, and {how}: the model stays as it was found")
    turn = Rotation.align_vectors([[0.0, -1.0, 0.0]], [up])[0].as_matrix()
    model.transform(pycolmap.Sim3d(1.0, pycolmap.Rotation3d(turn), np.zeros(3)))
    return dict(by="gravity", note=f"-y is up by {how}; {by_gps}: lengths are not in metres")


def _by_positions(model, posed, taken, up, how: str) -> dict[str, Any] | str:
    """The alignment by positions; why there is none, where the model is left as it is. up, how: as
    _up has them."""
    known = [(image, gps) for image in posed if (gps := taken[image.name]["gps"])]
    if len(known) < _FEWEST:
        few = f"only {len(known)} photographs have positions"
        return few if known else "no positions in EXIF"
    gps = np.array([(g[0], g[1], np.nan if g[2] is None else g[2]) for _, g in known], np.float64)
    if np.isnan(gps[:, 2]).any():
        gps[:, 2] = 0.0  # altitudes of some alone would bend the model
    origin = np.median(gps, axis=0)
    places = np.array(pycolmap.GPSTransform().ellipsoid_to_enu(gps, *origin)) @ _TO_Y_DOWN.T
    centres = np.array([image.projection_center() for image, _ in known])
    for error in _ERRORS:
        ransac = pycolmap.RANSACOptions(dict(max_error=error, random_seed=0))
        # a dict, though its annotation names a Sim3d
        found: Any = pycolmap.estimate_sim3d_robust(centres, places, ransac)
        if found and found["num_inliers"] >= max(_FEWEST, _SHARE * len(known)):
            break
    else:
        return f"positions of {len(known)} photographs in EXIF do not fit the model"
    inside, sim3 = np.asarray(found["inlier_mask"]), found["tgt_from_src"]
    centres, places = centres[inside], places[inside]
    offs = np.linalg.norm([sim3 * c - p for c, p in zip(centres, places)], axis=1)
    spread = np.linalg.svd(places - places.mean(axis=0), compute_uv=False) / np.sqrt(len(places))
    typical = max(float(np.median(offs)), 1e-3)
    if spread[0] < _CLEAR * typical:
        return f"positions in EXIF are {spread[0]:.1f} m apart and {typical:.1f} m off: too close"
    number = f"{len(places)} of {len(posed)} photographs, {typical:.1f} m off in the middle"
    note = f"in metres and -y is up, by the positions of {number}"
    if spread[1] < _CLEAR * typical:
        if up is None:
            return f"positions in EXIF lie on a line, and {how}"
        poles = [_POLE * np.linalg.norm(line - line.mean(axis=0)) for line in (centres, places)]
        upright = np.concatenate([places, places - [0, poles[1], 0]])
        stood = np.concatenate([centres, centres + poles[0] * up])
        sim3 = pycolmap.estimate_sim3d(stood, upright) or sim3
        note = f"in metres by the positions of {number}, which lie on a line; -y is up by {how}"
    model.transform(sim3)
    return dict(by="gps", note=note, origin=origin.tolist(), error=typical)


def _up(posed, taken) -> tuple[np.ndarray | None, str]:
    """Unit vector in the world that points up, and what tells it; None, and why."""
    turns = [np.array(image.cam_from_world().rotation.matrix()) for image in posed]
    ups = np.array([turn.T @ taken[image.name]["up"] for turn, image in zip(turns, posed)])
    level = np.array([taken[image.name]["level"] for image in posed])
    if level.sum() >= max(_FEWEST, len(posed) / 2):
        return _unit(np.median(ups[level], axis=0)), f"the gimbals of {level.sum()} photographs"
    # a picture is held level: its side, at a right angle to its top and to its view, is horizontal
    views = np.array([turn[2] for turn in turns])
    sides = np.cross(views, ups)
    up, weights = _unit(ups.mean(axis=0)), np.ones(len(sides))
    for _ in range(_ROUNDS):
        moments, axes = np.linalg.eigh((sides * weights[:, None]).T @ sides / weights.sum())
        if moments[1] < _SPREAD:  # all look one way: the mean top, made level
            across = axes[:, 2]
            up = _unit(ups.mean(axis=0) - across * (across @ ups.mean(axis=0)))
        else:
            up = axes[:, 0] * np.sign(_upward(ups @ axes[:, 0], views @ axes[:, 0]))
        weights = 1 / (1 + (sides @ up / _LEVEL) ** 2) ** 2
    held = float((np.abs(sides @ up) < _LEVEL).mean())
    if held < _HELD or _upward(ups @ up, views @ up) <= 0:
        return None, f"only {100 * held:.0f} % of the photographs are held level"
    if moments[1] < _SPREAD:
        return up, "the tops of the photographs alone, since all look one way"
    return up, "how photographs are held"


def _upward(tops: np.ndarray, views: np.ndarray) -> float:
    """Positive where an axis points up. tops, views: (N,) components of photographs' tops and views
    along it. Photographs straight down have no top that tells, and look down."""
    return float(tops.mean() if np.abs(tops).mean() > _TELLS else -views.mean()) or 1.0


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
