"""Refinement of poses in a training step, and the cameras that result from it.

A photograph has a turn and a shift on the left of the pose that the scene says, p = exp(turn) (R x
+ T + shift): rad and world units, in the camera's frame. What all cameras share would move the
scene, so the mean of turns and shifts, in the world's frame, is kept at 0.
"""

from __future__ import annotations

import math

from hardsplat.gpu.passes.declared import ComputePass, Fill
from hardsplat.train.features.cameras import save_cameras
from hardsplat.train.features.feature import Feature, StepParts, one_group

MOST_TURN = math.radians(3.0)  # of a camera in all
MOST_SHIFT = 0.03  # the same, of the scene's extent


def _parts(extent: float, free: bool = False) -> StepParts:
    """extent: world units. free: the splats stay as they are, so nothing is taken from the mean,
    and nothing limits the cameras."""
    most = {"MOST_TURN": MOST_TURN, "MOST_SHIFT": MOST_SHIFT * extent, "FREE": free}
    if free:
        most |= {"MOST_TURN": math.pi, "MOST_SHIFT": 1e30}
    reads, both = ("camera", "frame", "counts", "camera_sums", "turn"), ("turn", "shift")
    gather, settle = (f"photographs/pose_{name}.comp" for name in ("gather", "settle"))
    return StepParts(
        (
            ComputePass("pose gather", gather, reads, ("d_turn", "d_shift")),
            ComputePass("pose settle", settle, ("views", "rates", *both), both, most),
        ),
        [Fill("begin step", {"pose": "photographs/pose_refined.glsl"}, both)],
        record={"gradients": one_group("pose gather"), "moved": one_group("pose settle")},
    )


FEATURE = Feature(
    "poses",
    lambda job: _parts(job.extent, job.frozen) if job.config.poses.pose_opt else None,
    lambda: [_parts(1.0)],
    save=save_cameras,
)
