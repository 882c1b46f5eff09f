"""How a camera's lens makes its image: shaders/include/lens_*.glsl."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lens:
    """slot: the file that fills <lens>, with the projection of a splat and its gradient."""

    slot: str
    note: str


LENSES = {
    "pinhole": Lens("include/lens_pinhole.glsl", "straight lines stay straight; photographs of other lenses are undistorted"),
    "distorted": Lens("include/lens_distorted.glsl", "each camera distorts as it does: not at all, as COLMAP's FULL_OPENCV or as its OPENCV_FISHEYE"),
}
