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
    by_gps = _by_positions(model, posed, taken)
    if isinstance(by_gps, dict):
        return by_gps
    up, how = _up(posed, taken)
    if up is None:
        return dict(by="none", note=f"{by_gps}, and {how}: the model stays as it was found")
    model.transform(pycolmap.Sim3d(1.0, pycolmap.Rotation3d(_turn(up)), np.zeros(3)))
    note = f"-y is up by {how}; {by_gps}: lengths are not in metres"
    return dict(by="gravity", note=note)


def _by_positions(model, posed, taken) -> dict[str, Any] | str:
    """The alignment by positions; why there is none, where the model is left as it is."""
    known = [(image, gps) for image in posed if (gps := taken[image.name]["gps"])]
    if not known:
        return "no positions in EXIF"
    if len(known) < _FEWEST:
        return f"only {len(known)} photographs have positions"
    gps = np.array([(g[0], g[1], np.nan if g[2] is None else g[2]) for _, g in known], np.float64)
    if np.isnan(gps[:, 2]).any():
        gps[:, 2] = 0.0  # altitudes of some alone would bend the model
    origin = np.median(gps, axis=0)
    places = np.array(pycolmap.GPSTransform().ellipsoid_to_enu(gps, *origin)) @ _TO_Y_DOWN.T
    centres = np.array([image.projection_center() for image, _ in known])
    for error in _ERRORS:
        options = pycolmap.RANSACOptions()
        options.max_error, options.random_seed = error, 0
        # a dict, though its annotation names a Sim3d
        found: Any = pycolmap.estimate_sim3d_robust(centres, places, options)
        if found is None:
            continue
        inside, sim3 = np.asarray(found["inlier_mask"]), found["tgt_from_src"]
        if inside.sum() >= max(_FEWEST, _SHARE * len(known)):
            break
    else:
        return f"positions of {len(known)} photographs in EXIF do not fit the model"
    moved = np.array([sim3 * centre for centre in centres[inside]])
    offs = np.linalg.norm(moved - places[inside], axis=1)
    spread = np.linalg.svd(places[inside] - places[inside].mean(axis=0), compute_uv=False)
    spread /= np.sqrt(inside.sum())
    typical = max(float(np.median(offs)), 1e-3)
    if spread[0] < _CLEAR * typical:
        return f"positions in EXIF are {spread[0]:.1f} m apart and {typical:.1f} m off: too close"
    number = f"{inside.sum()} of {len(posed)} photographs, {typical:.1f} m off in the middle"
    note = f"in metres and -y is up, by the positions of {number}"
    if spread[1] < _CLEAR * typical:
        up, how = _up(posed, taken)
        if up is None:
            return f"positions in EXIF lie on a line, and {how}"
        sim3 = _along_line(centres[inside], places[inside], up)
        note = f"in metres by the positions of {number}, which lie on a line; -y is up by {how}"
    model.transform(sim3)
    return dict(by="gps", note=note, origin=origin.tolist(), error=typical)


def _along_line(centres: np.ndarray, places: np.ndarray, up: np.ndarray):
    """The similarity that turns `up` to -y and lays a line of centres along that of places, which
    are level."""
    turn = _turn(up)
    plane = (points[:, 0] + 1j * points[:, 2] for points in (centres @ turn.T, places))
    a, b = (numbers - numbers.mean() for numbers in plane)
    ratio = np.vdot(a, b) / max(np.vdot(a, a).real, 1e-12)
    scale = abs(ratio)
    c, s = ratio.real / scale, -ratio.imag / scale
    turn = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]) @ turn
    shift = places.mean(axis=0) - scale * turn @ centres.mean(axis=0)
    return pycolmap.Sim3d(scale, pycolmap.Rotation3d(turn), shift)


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


def _turn(up: np.ndarray) -> np.ndarray:
    """(3, 3) the smallest rotation that turns a unit vector to -y."""
    return Rotation.align_vectors([[0.0, -1.0, 0.0]], [up])[0].as_matrix()
