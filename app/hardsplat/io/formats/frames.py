"""Frames of reference: rotates splats, their spherical harmonics included, between the axes of file
formats and the world's up.

A frame is three letters, where its x, y and z point for a viewer of the scene. R is right, L left,
U up, D down, F forward, B back. hardsplat has RDF throughout, the cameras' frame of
COLMAP, as PLY files of the original 3DGS do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from hardsplat.model.camera import quaternions
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.harmonics import band

_RIGHT, _DOWN, _FORWARD = np.eye(3)
_AXES = dict(R=_RIGHT, L=-_RIGHT, D=_DOWN, U=-_DOWN, F=_FORWARD, B=-_FORWARD)  # in RDF
UPS = tuple(sign + axis for sign in ("", "-") for axis in "xyz")


def to_ours(frame: str) -> np.ndarray:
    """(3, 3) rotation from a frame, right-handed, to RDF."""
    return np.array([_AXES[letter] for letter in frame]).T


def axis(name: str) -> np.ndarray:
    """(3,) the axis called x, y, z, -x, -y or -z."""
    return np.eye(3)["xyz".index(name[-1])] * (-1 if name[0] == "-" else 1)


def upright(up: str | np.ndarray) -> np.ndarray:
    """(3, 3) rotation that takes `up`, the name of an axis or a unit vector (3,), to RDF's up, -y,
    by the least angle."""
    start, target = axis(up) if isinstance(up, str) else up, _AXES["U"]
    if (part := float(start @ target)) < 1e-12 - 1:
        return np.diag([1.0, -1.0, -1.0])
    across = np.outer(target, start) - np.outer(start, target)
    return np.eye(3) + across + across @ across / (1 + part)


def rotated(gaussians: Gaussians, rotation: np.ndarray) -> Gaussians:
    """Splats turned by a (3, 3) rotation about the origin: means, quaternions and SH bands. Their
    look from a camera that turns along is the same."""
    if (rotation == np.eye(3)).all():
        return gaussians
    R = rotation.astype(np.float32)
    # turning the local axes alike changes no ellipsoid, and only signs of the quaternion
    if (np.diag(np.diag(R)) == R).all():
        quats = gaussians.quats * np.array([1, *np.diag(R)], np.float32)
    else:
        quats = _product(quaternion(rotation), gaussians.quats)
    with np.errstate(invalid="ignore", over="ignore"):
        means = gaussians.means @ R.T
    sh = turned(gaussians.sh, rotation)
    return replace(gaussians, means=means, quats=quats, sh=sh, check=False)


def turned(sh: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """(N, K, ...) float32 SH coefficients of functions that are turned by a (3, 3) rotation."""
    if (rotation == np.eye(3)).all():
        return sh
    out = sh.copy()
    for degree in range(1, round(sh.shape[1] ** 0.5)):
        band = slice(degree**2, (degree + 1) ** 2)
        turn = band_rotation(tuple(map(tuple, rotation)), degree).astype(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite stays so
            out[:, band] = np.einsum("ij,nj...->ni...", turn, sh[:, band])
    return out


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """(4,) wxyz of a (3, 3) rotation."""
    return quaternions(rotation[None])[0]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(N, 4) float32, the Hamilton product of one quaternion with many."""
    w, x, y, z = a
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]], np.float32)
    return b @ left.T


@cache
def band_rotation(rotation: tuple[tuple[float, ...], ...], degree: int) -> np.ndarray:
    """(2 l + 1, 2 l + 1) float64 that turns the coefficients of band l: the function f becomes
    f(R^-1 d).

    Found by solving for it at directions enough: band functions at R^-1 d are combinations of those
    at d.
    """
    directions = np.random.default_rng(0).normal(size=(64, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    before, after = band(directions @ np.array(rotation), degree), band(directions, degree)
    turn = np.linalg.lstsq(after, before, rcond=None)[0]
    whole: np.ndarray = np.rint(turn)
    return np.where(np.abs(turn - whole) < 1e-12, whole, turn)  # a flip of axes is exact
