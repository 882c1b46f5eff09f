"""The views that a session trains on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import camera_data


@dataclass(frozen=True)
class Views:
    """The views that a session trains on, beside their photographs.

    canvas: width and height, px, that hold every view. extent: of the scene, world units. numbers:
    which of the scene's physical cameras took each view, counted from 0; by default one took all.
    depths: what is known of their depth where --depth-lambda asks for it: (H, W), 1 / world units,
    0 where nothing is. distorted: other cameras that the session's rasterizer draws distort, as
    these may.
    """

    cameras: Sequence[Camera]
    canvas: tuple[int, int]
    extent: float
    numbers: Sequence[int] = ()
    depths: Sequence[np.ndarray] | None = None
    distorted: bool = False

    @property
    def lens(self) -> Literal["pinhole", "distorted"]:
        """Which cameras the rasterizer takes."""
        return (
            "distorted"
            if self.distorted or any(camera.distortion for camera in self.cameras)
            else "pinhole"
        )


def packed_cameras(cameras: Sequence[Camera], numbers: Sequence[int]) -> np.ndarray:
    """The contract's Camera struct of each view. numbers: see Views."""
    return np.stack(
        [
            camera_data(camera, number=number)
            for camera, number in zip(cameras, numbers, strict=True)
        ]
    )
