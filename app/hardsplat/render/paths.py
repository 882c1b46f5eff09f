"""Cameras to look at splats from: around them, along a spiral, through keyframes; and the
pictures of a path, a camera and a name each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation, Slerp

from hardsplat.base.errors import UserError
from hardsplat.base.files import short_name
from hardsplat.io.camera_path import CameraPath
from hardsplat.io.formats.frames import axis
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera, intrinsics
from hardsplat.model.framing import SceneBounds, look_at, scene_bounds, spread, unit
from hardsplat.model.gaussians import Gaussians

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


def spiral(setting: SceneBounds, frames: int) -> np.ndarray:
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
    t = np.arange(frames) * (4 * np.pi / frames)
    sway = np.stack([np.cos(t), -np.sin(t), np.sin(t / 2)], axis=1) * radii
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


VIEWS, AROUND = ("held-out", "train"), ("orbit", "spiral")
# of a path that says nothing else; degrees, vertical
SIZE, FOV, FPS, FRAMES = (1280, 720), 50.0, 30.0, 120
# px of an orbit or a spiral without a given size, where its cameras are smaller
NARROWEST = 960
# of a path: 55 minutes at 30 a second; each takes a kilobyte before it is drawn
MOST_FRAMES = 100_000


@dataclass(frozen=True)
class Framing:
    """Which pictures are drawn, and how large.

    path: held-out, train, orbit, spiral or a JSON file, see io.camera_path. frames: their
    number; of a list of views, evenly chosen ones.

    fps: frames a second of a video, and of keyframes that have no pace of their own. width, height:
    px, by default as the cameras have them.

    fov: vertical, degrees, and up: a world axis such as "-y". Both are of orbit and spiral.
    """

    path: str = "orbit"
    frames: int | None = None
    fps: float | None = None
    width: int | None = None
    height: int | None = None
    fov: float | None = None
    up: str | None = None


@dataclass(frozen=True)
class Shot:
    """name: path of its still below the folder, without the last ending: a view's own path, or
    frame_00000."""

    name: str
    camera: Camera


def shots_of(
    framing: Framing, keys: CameraPath | None, scene: Scene | None, gaussians: Gaussians
) -> list[Shot]:
    """The cameras of a path. keys: what its file has. Raises UserError where there are none, or too
    many."""
    path, frames, width, height = framing.path, framing.frames, framing.width, framing.height
    if path in VIEWS:
        if scene is None:
            raise UserError(f"--path {path}: there is no scene whose cameras it could take")
        indices = scene.test if path == "held-out" else scene.train
        views = [scene.views[indices[i]] for i in spread(len(indices), frames or len(indices))]
        return [Shot(short_name(v.name), fitted(v.camera, width, height)) for v in views]
    cameras = [scene.views[i].camera for i in scene.train] if scene else []
    base = _base(cameras[0] if cameras and not keys else None, keys, framing)
    if keys:
        w2c, focal = _poses_of(path, keys, frames, framing.fps or FPS)
        poses = [(pose, f * base.height) for pose, f in zip(w2c, focal)]
    else:
        setting = scene_bounds(gaussians, cameras, axis(framing.up) if framing.up else None)
        tan = 0.5 * min(base.width / base.K[0, 0], base.height / base.K[1, 1])
        n = frames or FRAMES
        w2c = orbit(setting, n, tan) if path == "orbit" else spiral(setting, n)
        poses = [(pose, base.K[[0, 1], [0, 1]]) for pose in w2c]
    shots = []
    for i, (pose, focal) in enumerate(poses):
        K = base.K.copy()
        K[[0, 1], [0, 1]] = focal
        try:
            shots.append(Shot(f"frame_{i:05d}", Camera(pose, K, base.width, base.height)))
        except ValueError as error:
            raise UserError(f"--path {path}: frame {i}: {error}") from None
    return shots


def _poses_of(path: str, keys: CameraPath, frames: int | None, fps: float):
    """(world to camera (N, 4, 4), focal lengths (N, 2) in heights of the image): as many as its
    file lists, or its seconds have at its pace, or at `fps`. Raises UserError for too many."""
    seconds, pace = keys.times[-1] - keys.times[0], keys.fps or fps
    count, why = len(keys.c2w), "which it lists"
    if not keys.frames:
        count, why = max(1, round(seconds * pace) + 1), f"{seconds:g} s at {pace:g} a second"
    if not frames and count > MOST_FRAMES:
        advice = "correct the times of its keyframes, or add --frames N"
        most = f"{count:,} frames, {why}; there may be {MOST_FRAMES:,}: {advice}"
        raise UserError(f"--path {path}: would be {most}")
    if keys.frames and not frames:
        return np.linalg.inv(keys.c2w), keys.focal
    return along(keys, frames or count)


def _base(camera: Camera | None, keys: CameraPath | None, framing: Framing) -> Camera:
    """Size and intrinsics of a path: those of a camera, or square pixels seen straight on."""
    width, height = framing.width, framing.height
    if camera is None or framing.fov:
        w, h = (keys.size if keys else None) or ((camera.width, camera.height) if camera else SIZE)
        camera = Camera(np.eye(4), intrinsics(np.radians(framing.fov or FOV), w, h), w, h)
    if not (width or height or (keys and keys.size)) and camera.width < NARROWEST:
        width = NARROWEST
    return fitted(camera, width, height)
