"""The contract's Camera and Frame structs of one view."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from hardsplat import contract
from hardsplat.model.camera import Camera

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_dtype = cache(contract.dtype)  # which takes longer than the rest of a struct


def camera_data(camera: Camera, number: int = 0) -> np.ndarray:
    """The contract's Camera struct. number: which of the scene's physical cameras it is."""
    data = np.zeros((), _dtype("Camera"))
    data["world_to_camera"] = camera.w2c[:3]
    data["position"] = camera.position
    data["focal"] = camera.K[0, 0], camera.K[1, 1]
    data["centre"] = camera.K[0, 2], camera.K[1, 2]
    data["size"] = camera.width, camera.height
    data["number"] = number
    data["reach"] = np.inf
    if camera.distortion:
        d = camera.distortion
        data["lens"] = contract.CONSTANTS["LENS_FISHEYE" if d.fisheye else "LENS_PERSPECTIVE"]
        data["distortion"] = np.resize(
            [*d.coefficients, *[0.0] * (8 - len(d.coefficients))], (2, 4)
        )
        data["reach"] = camera.reach
    return data


def frame_data(
    sh_degree: int,
    background: ArrayLike,
    near_plane: float,
    step: int = 0,
    splat_scale: float = 1.0,
) -> np.ndarray:
    """The contract's Frame struct outside training. step: what random numbers differ by.
    splat_scale: times their own size that splats are shown in."""
    data = np.zeros((), _dtype("Frame"))
    data["sh_degree"], data["background"], data["near_plane"] = sh_degree, background, near_plane
    data["step"], data["shrunk"] = step, 1.0 - splat_scale
    return data


def finished(target: np.ndarray, background: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """(image (H, W, 3) over its background, T (H, W)), float32, from a downloaded `target` (H, W,
    4) of any format."""
    if target.dtype.kind == "u":
        target = target / np.float32(np.iinfo(target.dtype).max)
    target = target.astype(np.float32, copy=False)
    T = target[..., 3]
    if not np.any(background):
        return np.ascontiguousarray(target[..., :3]), T
    return target[..., :3] + T[..., None] * np.asarray(background, np.float32), T
