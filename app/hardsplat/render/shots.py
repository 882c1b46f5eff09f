"""The pictures of a path: a camera and a name each, from views of the scene, around
it, or along keyframes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import short_name
from hardsplat.io.camera_path import CameraPath
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera
from hardsplat.model.framing import direction, scene_bounds, spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.render.paths import along, fitted, intrinsics, orbit, spiral

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
        setting = scene_bounds(gaussians, cameras, direction(framing.up))
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
        most = f"{count} frames, {why}; there may be {MOST_FRAMES}: {advice}"
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
