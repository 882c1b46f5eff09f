"""Camera paths from JSON: our own keyframes, and the camera_path.json that nerfstudio's viewer
exports, whose frames are interpolated and OpenGL's; see docs/guide/rendering.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.values import array_in, json_in, number_in
from hardsplat.model.camera import Camera

SECONDS = 2.0  # from one keyframe without a time to the next
_LARGEST_SIDE = 65536


@dataclass(frozen=True)
class CameraPath:
    """c2w: (N, 4, 4) OpenCV. focal: (N, 2) in heights of the image. times: (N,) seconds. frames:
    they are the frames themselves, not keyframes."""

    c2w: np.ndarray
    focal: np.ndarray
    times: np.ndarray
    size: tuple[int, int] | None
    fps: float | None
    loop: bool
    frames: bool


def read_camera_path(path: str | Path) -> CameraPath:
    """Raises UserError for anything missing, damaged or not finite."""
    path = Path(path)
    top = json_in(path)
    if not isinstance(top, dict) or not ({"keyframes", "camera_path"} & top.keys()):
        raise UserError(f"{path}: holds no list of keyframes (or camera_path of nerfstudio)")
    frames = "keyframes" not in top
    listed = top["camera_path" if frames else "keyframes"]
    if not isinstance(listed, list) or not listed or not all(isinstance(k, dict) for k in listed):
        raise UserError(f"{path}: the camera path is empty, or no list of objects")
    size, sides = None, ("render_width", "render_height") if frames else ("width", "height")
    if set(sides) & top.keys():
        width, height = (number_in(f"{path}", top, name, 1, _LARGEST_SIDE) for name in sides)
        size = int(width), int(height)
    fps = number_in(f"{path}", top, "fps", 0.01, 1000) if top.get("fps") is not None else None
    kind = top.get("camera_type", "perspective")
    if frames and kind != "perspective":
        what = f"camera_type {str(kind)[:40]} is not supported"
        raise UserError(f"{path}: {what}; export a perspective path")
    c2w, focal = [], []
    times: list[float] = []
    for i, key in enumerate(listed):
        where, timed = f"{path}: {'frame' if frames else 'keyframe'} {i}", "time" in key
        c2w.append(_pose(where, key, frames))
        focal.append(_focal(where, key, size))
        own = number_in(where, key, "time", -1e6, 1e6) if timed and not frames else SECONDS * i
        if times and own <= times[-1]:
            what = f"time {own:g} is not after that of the one before, {times[-1]:g}"
            raise UserError(f"{where}: {what}")
        times.append(own)
    loop = top.get("loop") is True and not frames
    return CameraPath(np.array(c2w), np.array(focal), np.array(times), size, fps, loop, frames)


def _pose(where, key, opengl) -> np.ndarray:
    name = "camera_to_world" if opengl else next((n for n in ("c2w", "w2c") if n in key), "c2w")
    matrix = array_in(where, key, name, named=name if opengl else "c2w or w2c")
    if matrix.size == 16:
        matrix = matrix.reshape(4, 4)
    elif matrix.shape == (3, 4):
        matrix = np.vstack([matrix, [0, 0, 0, 1]])
    else:
        raise UserError(f"{where}: {name} is not a 4x4 matrix of numbers")
    try:
        Camera(matrix, np.eye(3), 1, 1)  # finite and rigid
    except ValueError as error:
        raise UserError(f"{where}: {name}: {str(error).replace('w2c', 'matrix')}") from None
    matrix = matrix if name != "w2c" else np.linalg.inv(matrix)
    if opengl:
        matrix = matrix @ np.diag([1.0, -1.0, -1.0, 1.0])
    return matrix


def _focal(where, key, size) -> tuple[float, float]:
    if "fov" in key:
        return (0.5 / math.tan(math.radians(number_in(where, key, "fov", 0.1, 179.0)) / 2),) * 2
    if not {"fx", "fy"} <= key.keys():
        raise UserError(f"{where}: has neither fov nor fx and fy")
    if size is None:
        raise UserError(f"{where}: fx and fy are in pixels; add width and height beside keyframes")
    return tuple(number_in(where, key, name, 1e-3, 1e9) / size[1] for name in ("fx", "fy"))
