"""The contract's Camera and Frame structs of one view."""

from __future__ import annotations

from functools import cache

import numpy as np

from hardsplat import contract
from hardsplat.camera import Camera

_dtype = cache(contract.dtype)  # which takes longer than the rest of a row


def camera_row(camera: Camera, photo: int = 0, number: int = 0) -> np.ndarray:
    """The contract's Camera struct. photo: first pixel of its photograph in `photos`. number: which of the scene's physical cameras took it."""
    row = np.zeros((), _dtype("Camera"))
    row["world_to_camera"] = camera.w2c[:3]
    row["position"] = camera.position
    row["focal"] = camera.K[0, 0], camera.K[1, 1]
    row["centre"] = camera.K[0, 2], camera.K[1, 2]
    row["size"] = camera.width, camera.height
    row["photo"], row["number"] = photo, number
    row["reach"] = np.inf
    if camera.distortion:
        d = camera.distortion
        row["lens"] = contract.CONSTANTS["LENS_FISHEYE" if d.fisheye else "LENS_PERSPECTIVE"]
        row["distortion"] = np.resize([*d.coefficients, *[0.0] * (8 - len(d.coefficients))], (2, 4))
        row["reach"] = camera.reach
    return row


def frame_row(sh_degree: int, background, near_plane: float, step: int = 0) -> np.ndarray:
    """The contract's Frame struct outside training. step: what random numbers differ by."""
    row = np.zeros((), _dtype("Frame"))
    row["sh_degree"], row["background"], row["near_plane"] = sh_degree, background, near_plane
    row["step"] = step
    return row
