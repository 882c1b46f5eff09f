"""Refinement of poses and intrinsics: what a photograph's camera gets from the splats."""

from hardsplat.contract.layout import BufferSpec, Subsystem

POSE = Subsystem(
    "pose",
    "gradients of cameras",
    buffers=(
        BufferSpec(
            162,
            "camera_sums",
            "float",
            ("groups", 9),
            "over the visible splats of a workgroup: dL/d shift of all splats (3) and turn of them about the camera (3), world frame; dL/d log focal length, dL/d centre (2)",
        ),
    ),
    uses=("core",),
)
