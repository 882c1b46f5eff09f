"""Refinement of poses in a training step, and the cameras that result from it.

A photograph has a turn and a shift on the left of the pose that the scene says, p = exp(turn) (R x
+ T + shift): rad and world units, in the camera's frame. What all cameras share would move the
scene, so the mean of turns and shifts, in the world's frame, is kept at 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hardsplat.gpu.passes.declared import ComputePass, Fill
from hardsplat.model.camera import Camera

MOST_TURN = math.radians(3.0)  # of a camera in all
MOST_SHIFT = 0.03  # the same, of the scene's extent

POSE_FILL = Fill("begin step", {"pose": "photographs/pose_refined.glsl"}, ("turn", "shift"))


def pose_passes(extent: float, free: bool = False) -> tuple[ComputePass, ...]:
    """extent: world units. free: the splats stay as they are, so nothing is taken from the mean,
    and nothing limits the cameras."""
    most = {"MOST_TURN": MOST_TURN, "MOST_SHIFT": MOST_SHIFT * extent, "FREE": free}
    if free:
        most |= {"MOST_TURN": math.pi, "MOST_SHIFT": 1e30}
    reads, both = ("camera", "frame", "counts", "camera_sums", "turn"), ("turn", "shift")
    gather, settle = (f"photographs/pose_{name}.comp" for name in ("gather", "settle"))
    return (
        ComputePass("pose gather", gather, reads, ("d_turn", "d_shift")),
        ComputePass("pose settle", settle, ("views", "rates", *both), both, most),
    )


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
