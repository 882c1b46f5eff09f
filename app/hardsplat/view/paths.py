"""Cameras to look at splats from: around them, along a spiral, through keyframes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation, Slerp

from hardsplat.camera import Camera
from hardsplat.gaussians import Gaussians
from hardsplat.io.camera_path import CameraPath

PARALLEL = 1e-3  # mean squared sine of the axes' spread below which they meet nowhere in particular
ELEVATION = np.radians(15.0)  # of an orbit around splats whose cameras are not known
SWING = 0.15  # radius of a spiral over the distance of what it looks at, where the cameras look everywhere


@dataclass(frozen=True)
class Setting:
    """What a path is around. centre: world units. up: unit vector. positions, forwards: (V, 3) of the scene's cameras, V = 0 where there are none.

    reach: distance from the centre within which most splats are.
    """

    centre: np.ndarray
    up: np.ndarray
    positions: np.ndarray
    forwards: np.ndarray
    reach: float


def setting_of(gaussians: Gaussians, cameras: Sequence[Camera] = (), up: np.ndarray | None = None) -> Setting:
    """up: world direction; by default that of the cameras, or -y, which is COLMAP's."""
    middle, reach = _middle(gaussians)
    if not cameras:
        return Setting(middle, _unit(np.array([0.0, -1.0, 0.0]) if up is None else up), np.empty((0, 3)), np.empty((0, 3)), reach)
    positions = np.array([c.position for c in cameras])
    forwards, downs = np.array([c.w2c[2, :3] for c in cameras]), np.array([c.w2c[1, :3] for c in cameras])
    if up is None:
        up = -downs.mean(axis=0)
        up = up if np.linalg.norm(up) > 1e-3 else -downs[0]  # cameras that lie in all directions
    return Setting(_nearest(positions, forwards, gaussians.means), _unit(up), positions, forwards, reach)


def _middle(gaussians: Gaussians) -> tuple[np.ndarray, float]:
    """Median of the means that can be seen, and the distance from it within which four fifths of them are."""
    means = gaussians.means[np.isfinite(gaussians.means).all(axis=1)].astype(np.float64)
    seen = gaussians.means[(gaussians.opacities > 0.1) & np.isfinite(gaussians.means).all(axis=1)].astype(np.float64)
    means = seen if len(seen) else means
    if not len(means):
        return np.zeros(3), 1.0
    middle = np.median(means, axis=0)
    return middle, max(float(np.quantile(np.linalg.norm(means - middle, axis=1), 0.8)), 1e-6)


def _nearest(positions: np.ndarray, forwards: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The point with the least sum of squared distances from the cameras' axes; where these are parallel or it is behind them, the
    point on the mean axis at the median depth of the splats."""
    across = np.eye(3) - forwards[:, :, None] * forwards[:, None, :]
    A = across.mean(axis=0)
    if np.linalg.eigvalsh(A)[0] > PARALLEL:
        centre = np.linalg.solve(A, np.einsum("nij,nj->i", across, positions) / len(positions))
        if np.median(np.einsum("ni,ni->n", centre - positions, forwards)) > 0:
            return centre
    forward = forwards.mean(axis=0)
    forward = _unit(forward) if np.linalg.norm(forward) > 1e-3 else forwards[0]
    depths = (means[np.isfinite(means).all(axis=1)] - positions.mean(axis=0)) @ forward
    depths = depths[depths > 0]
    return positions.mean(axis=0) + forward * (np.median(depths) if len(depths) else 1.0)


def look_at(position: np.ndarray, target: np.ndarray, up: np.ndarray) -> np.ndarray:
    """(4, 4) world to camera."""
    forward = _unit(target - position)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-6:  # straight up or down
        right = np.cross(forward, np.roll(up, 1) + [0.1, 0.2, 0.3])
    right = _unit(right)
    w2c = np.eye(4)
    w2c[:3, :3] = right, np.cross(forward, right), forward
    w2c[:3, 3] = -w2c[:3, :3] @ position
    return w2c


def orbit(setting: Setting, frames: int, tan_half_fov: float) -> np.ndarray:
    """(frames, 4, 4) world to camera: once around the axis `up` through the centre, looking at it, from the first camera's side; at the
    median height and distance of the cameras, or where most splats are in view."""
    up, centre = setting.up, setting.centre
    if len(setting.positions):
        offsets = setting.positions - centre
        heights = offsets @ up
        flat = offsets - heights[:, None] * up
        radius, height, start = np.median(np.linalg.norm(flat, axis=1)), np.median(heights), flat[0]
    else:
        distance = 1.1 * setting.reach / min(tan_half_fov, 1.0)
        radius, height, start = distance * np.cos(ELEVATION), distance * np.sin(ELEVATION), np.zeros(3)
    if np.linalg.norm(start) < 1e-6 * setting.reach:
        start = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    if np.hypot(radius, height) < 1e-6 * setting.reach:
        radius = setting.reach
    e1 = _unit(start)
    e2 = np.cross(up, e1)
    angles = np.arange(frames) * (2 * np.pi / frames)
    positions = centre + height * up + radius * (np.cos(angles)[:, None] * e1 + np.sin(angles)[:, None] * e2)
    return np.array([look_at(p, centre, up) for p in positions])


def spiral(setting: Setting, frames: int, turns: int = 2) -> np.ndarray:
    """(frames, 4, 4) world to camera: ellipses that drift to and fro across the view of the mean camera, as LLFF renders forward-facing scenes
    (Mildenhall et al. 2019). Where the cameras look in all directions, around the first one."""
    positions, forward = setting.positions, setting.forwards.mean(axis=0)
    if np.linalg.norm(forward) > 0.7:
        middle, forward = positions.mean(axis=0), _unit(forward)
        offsets = positions - middle
        focus = max(float((setting.centre - middle) @ forward), 1e-6)
    else:
        middle, forward = positions[0], setting.forwards[0]
        focus = max(float((setting.centre - middle) @ forward), 1e-6)
        offsets = np.full((1, 3), SWING * focus)
    axes = look_at(middle, middle + forward, setting.up)[:3, :3]
    radii = np.percentile(np.abs(offsets @ axes.T), 90, axis=0) if len(offsets) > 1 else np.abs(offsets[0])
    t = np.arange(frames) * (2 * np.pi * turns / frames)
    sway = np.stack([np.cos(t), -np.sin(t), np.sin(t / turns)], axis=1) * radii
    return np.array([look_at(middle + s @ axes, middle + focus * forward, setting.up) for s in sway])


def along(path: CameraPath, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """(world to camera (frames, 4, 4), focal lengths (frames, 2) in heights of the image), evenly in time from the first keyframe to the last, or round to
    the first again. Positions and focal lengths by cubic splines, orientations by the shortest turns between keyframes."""
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


def fitted(camera: Camera, width: int | None = None, height: int | None = None) -> Camera:
    """The same view at another size. One side alone keeps the proportions; of both the height counts, and the picture shows more or less at its sides."""
    if width is None and height is None:
        return camera
    height = height or max(1, round(camera.height * width / camera.width))
    width = width or max(1, round(camera.width * height / camera.height))
    scale, K = height / camera.height, camera.K.copy()
    K[[0, 1], [0, 1]] *= scale
    K[:2, 2] = (width, height) + (2 * camera.K[:2, 2] - (camera.width, camera.height)) * scale
    K[:2, 2] /= 2
    return Camera(camera.w2c, K, width, height)


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)
