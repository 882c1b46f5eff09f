"""Refinement of poses: what a photograph's camera gets from the splats."""

from hardsplat.contract.layout import BufferSpec, Subsystem

POSE = Subsystem(
    "pose",
    "gradients of poses",
    buffers=(
        BufferSpec(
            162,
            "pose_sums",
            "float",
            ("groups", 6),
            "over the visible splats of a workgroup: dL/d shift of all splats (3), dL/d turn of them about the camera (3); world frame",
        ),
    ),
    uses=("core",),
)
