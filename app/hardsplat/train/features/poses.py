"""Refinement of poses in a training step, and the cameras that result from it.

A photograph has a turn and a shift on the left of the pose that the scene says, p = exp(turn) (R x
+ T + shift): rad and world units, in the camera's frame. What all cameras share would move the
scene, so the mean of turns and shifts, in the world's frame, is kept at 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.model.camera import Camera
from hardsplat.train.features.feature import Feature, Found, StepParts, one_group

if TYPE_CHECKING:  # the build of a wheel, which lists the passes, has no readers of pictures
    from hardsplat.io.scenes.scene import Scene

MOST_TURN = math.radians(3.0)  # of a camera in all
MOST_SHIFT = 0.03  # the same, of the scene's extent


def _parts(extent: float, free: bool = False) -> StepParts:
    """extent: world units. free: the splats stay as they are, so nothing is taken from the mean,
    and nothing limits the cameras."""
    most = {"MOST_TURN": MOST_TURN, "MOST_SHIFT": MOST_SHIFT * extent, "FREE": free}
    if free:
        most |= {"MOST_TURN": math.pi, "MOST_SHIFT": 1e30}
    reads, both = ("camera", "frame", "counts", "camera_sums", "turn"), ("turn", "shift")
    begin, gather, settle = (f"photographs/pose_{at}.comp" for at in ("begin", "gather", "settle"))
    return StepParts(
        (
            ComputePass("pose begin", begin, ("camera", "frame", *both), ("camera",)),
            ComputePass("pose gather", gather, reads, ("d_turn", "d_shift")),
            ComputePass("pose settle", settle, ("views", "rates", *both), both, most),
        ),
        record={
            "begun": one_group("pose begin"),
            "gradients": one_group("pose gather"),
            "moved": one_group("pose settle"),
        },
    )


def focused(camera: Camera, change: np.ndarray) -> Camera:
    """A camera changed by what was trained of it. change: (3,), see intrinsics.py."""
    log_focal, *shift = np.asarray(change, np.float64)
    K = camera.K.copy()
    K[:2, 2] += np.diag(camera.K)[:2] * shift
    K[[0, 1], [0, 1]] *= np.exp(log_focal)
    return replace(camera, K=K)


def focused_scene(scene: Scene, changes: np.ndarray) -> Scene:
    """A scene whose cameras are changed by what was trained of them, those of held-out photographs
    too. changes: (cameras, 3); cameras beyond stay as they are."""
    views = [
        replace(v, camera=focused(v.camera, changes[v.number])) if v.number < len(changes) else v
        for v in scene.views
    ]
    return replace(scene, views=views)


def refined(camera: Camera, turn: np.ndarray, shift: np.ndarray) -> Camera:
    """A camera moved by what was trained of it: turn (3,) rad, shift (3,) world units."""
    from scipy.spatial.transform import Rotation  # takes a third of a second

    by = np.eye(4)
    by[:3, :3] = Rotation.from_rotvec(np.asarray(turn, np.float64)).as_matrix()
    by[:3, 3] = by[:3, :3] @ np.asarray(shift, np.float64)
    return replace(camera, w2c=by @ camera.w2c)


def moved(cameras: Sequence[Camera], buffers: Mapping[str, np.ndarray]) -> list[Camera]:
    """The cameras of a checkpoint's photographs. buffers: `turn` and `shift` (1, N, 3)."""
    return list(map(refined, cameras, buffers["turn"][0], buffers["shift"][0]))


def save_cameras(found: Found) -> None:
    """poses/, the cameras of all photographs as they are by now."""
    from hardsplat.io.scenes.poses import FOLDER, save_poses

    c, scene, buffers = found.job.config, found.scene, found.buffers
    views = scene.views
    if c.intrinsics.intrinsics_opt:
        views = focused_scene(scene, buffers["intrinsics"][0]).views
    cameras = [view.camera for view in views]
    moves = [*moved([cameras[i] for i in scene.train], buffers), *found.held_out]
    changed = [*scene.train, *(scene.test if found.held_out else ())]
    for i, camera in zip(changed, moves, strict=True):
        cameras[i] = camera
    save_poses(found.folder / FOLDER, scene, cameras, c.scene.data_dir)


FEATURE = Feature(
    "poses",
    lambda job: (
        _parts(job.views.extent, job.schedule.frozen) if job.config.poses.pose_opt else None
    ),
    lambda: [_parts(1.0)],
    save=save_cameras,
)
