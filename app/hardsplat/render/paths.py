"""Cameras to look at splats from: around them, along a spiral, through keyframes."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation, Slerp

from hardsplat.io.camera_path import CameraPath
from hardsplat.model.camera import Camera
from hardsplat.model.framing import SceneBounds, look_at, unit

ELEVATION = np.radians(15.0)  # of an orbit around splats whose cameras are not known
# radius of a spiral over the distance of what it looks at, where the cameras look everywhere
SWING = 0.15


def orbit(setting: SceneBounds, frames: int, tan_half_fov: float) -> np.ndarray:
    """(frames, 4, 4) world to camera: once around the axis `up` through the centre, looking at it,
    from the first camera's side. Height and distance are the cameras' medians, or such that most
    splats are in view."""
    up, centre = setting.up, setting.centre
    if len(setting.positions):
        offsets = setting.positions - centre
        heights = offsets @ up
        flat = offsets - heights[:, None] * up
        radius, height, start = np.median(np.linalg.norm(flat, axis=1)), np.median(heights), flat[0]
    else:
        distance = 1.1 * setting.reach / min(tan_half_fov, 1.0)
        radius, height = distance * np.cos(ELEVATION), distance * np.sin(ELEVATION)
        start = np.zeros(3)
    if np.linalg.norm(start) < 1e-6 * setting.reach:
        start = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    if np.hypot(radius, height) < 1e-6 * setting.reach:
        radius = setting.reach
    e1 = unit(start)
    e2 = np.cross(up, e1)
    angles = np.arange(frames) * (2 * np.pi / frames)
    around = np.cos(angles)[:, None] * e1 + np.sin(angles)[:, None] * e2
    positions = centre + height * up + radius * around
    return np.array([look_at(p, centre, up) for p in positions])


def spiral(setting: SceneBounds, frames: int, turns: int = 2) -> np.ndarray:
    """(frames, 4, 4) world to camera: ellipses that drift to and fro across the view of the mean
    camera, as LLFF renders forward-facing scenes (Mildenhall et al. 2019). Where the cameras look
    in all directions, around the first one."""
    positions, forward = setting.positions, setting.forwards.mean(axis=0)
    together = np.linalg.norm(forward) > 0.7
    middle = positions.mean(axis=0) if together else positions[0]
    forward = unit(forward) if together else setting.forwards[0]
    focus = max(float((setting.centre - middle) @ forward), 1e-6)
    offsets = positions - middle if together else np.full((1, 3), SWING * focus)
    axes = look_at(middle, middle + forward, setting.up)[:3, :3]
    radii = np.abs(offsets[0])
    if len(offsets) > 1:
        radii = np.percentile(np.abs(offsets @ axes.T), 90, axis=0)
    t = np.arange(frames) * (2 * np.pi * turns / frames)
    sway = np.stack([np.cos(t), -np.sin(t), np.sin(t / turns)], axis=1) * radii
    return np.array(
        [look_at(middle + s @ axes, middle + focus * forward, setting.up) for s in sway]
    )


def along(path: CameraPath, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """(world to camera (frames, 4, 4), focal lengths (frames, 2) in heights of the image), evenly
    in time from the first keyframe to the last, or round to the first again. Positions and focal
    lengths by cubic splines, orientations by the shortest turns between keyframes."""
    c2w, focal, times = path.c2w, path.focal, path.times
    if path.loop and len(times) > 1:
        c2w, focal = np.concatenate([c2w, c2w[:1]]), np.concatenate([focal, focal[:1]])
        times = np.append(times, times[-1] + np.diff(times).mean())
    if len(times) == 1:
        at, smooth, turned = times, np.column_stack([c2w[:, :3, 3], np.log(focal)]), c2w[:, :3, :3]
        smooth, turned = np.repeat(smooth, frames, axis=0), np.repeat(turned, frames, axis=0)
    else:
        at = np.linspace(times[0], times[-1], frames, endpoint=not path.loop)
        numbers = np.column_stack([c2w[:, :3, 3], np.log(focal)])
        smooth = CubicSpline(times, numbers, bc_type="periodic" if path.loop else "natural")(at)
        turned = Slerp(times, Rotation.from_matrix(c2w[:, :3, :3]))(at).as_matrix()
    R = turned.transpose(0, 2, 1)
    w2c = np.tile(np.eye(4), (len(R), 1, 1))
    w2c[:, :3, :3], w2c[:, :3, 3] = R, -np.einsum("nij,nj->ni", R, smooth[:, :3])
    return w2c, np.exp(smooth[:, 3:])


def intrinsics(fov: float, width: int, height: int) -> np.ndarray:
    """(3, 3) of square pixels seen straight on. fov: vertical, radians; width, height: px."""
    focal = 0.5 * height / np.tan(fov / 2)
    return np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])


def fitted(camera: Camera, width: int | None = None, height: int | None = None) -> Camera:
    """The view at another size. One side alone keeps the proportions; of both the height counts,
    and the picture shows more or less at its sides."""
    if not height:
        if not width:
            return camera
        height = max(1, round(camera.height * width / camera.width))
    width = width or max(1, round(camera.width * height / camera.height))
    scale, K = height / camera.height, camera.K.copy()
    K[[0, 1], [0, 1]] *= scale
    K[:2, 2] = (width, height) + (2 * camera.K[:2, 2] - (camera.width, camera.height)) * scale
    K[:2, 2] /= 2
    return Camera(camera.w2c, K, width, height)
