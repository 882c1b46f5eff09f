"""Depth instead of colour: the passes that change one for the other and back, and what they
keep."""

from __future__ import annotations

from hardsplat import contract
from hardsplat.gpu.passes.declared import ComputePass

KEPT = ("kept_colors", "d_depths")  # one a splat


def depth_passes() -> list[ComputePass]:
    """Those that change colours for depth and back."""
    shared = ("frame", "counts", "seen", "colors2d")
    return [
        ComputePass(
            "show depth",
            "photographs/depth_show.comp",
            reads=(*shared, "camera", "means"),
            writes=("frame", "counts", "colors2d", "kept_colors", "kept_frame"),
        ),
        ComputePass(
            "show colours",
            "photographs/depth_hide.comp",
            reads=(*shared, "d_splats2d", "kept_colors", "kept_frame"),
            writes=("frame", "colors2d", "d_splats2d", "d_depths"),
        ),
    ]


def depth_bytes(capacity: int) -> dict[str, int]:
    """Bytes of what those need, by name."""
    return contract.nbytes({**dict.fromkeys(KEPT, capacity), "kept_frame": 1})
