"""The views that a session trains on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import camera_data
from hardsplat.tables.quantities import Of

POINTS = 4_000  # most of a sample


@dataclass(frozen=True)
class Views:
    """The views that a session trains on, without their photographs.

    canvas: width and height, px, that hold every view. extent: of the scene, world units. numbers:
    which of the scene's physical cameras took each view, counted from 0; by default one took all.
    distorted: other cameras that the session's rasterizer draws distort, as these may.
    texels: of the sky that is optimized behind the splats, 0 without one. faces: views of each
    photograph, one after the other.
    """

    cameras: Sequence[Camera]
    canvas: tuple[int, int]
    extent: float
    numbers: Sequence[int] = ()
    distorted: bool = False
    texels: int = 0
    faces: int = 1

    @property
    def lens(self) -> Literal["pinhole", "distorted"]:
        """Which cameras the rasterizer takes."""
        bent = self.distorted or any(camera.distortion for camera in self.cameras)
        return "distorted" if bent else "pinhole"

    @property
    def items(self) -> dict[Of, int]:
        """How many photographs, cameras and texels of the sky there are."""
        return {
            "photograph": len(self.cameras),
            "camera": max(self.numbers, default=0) + 1,
            "texel": self.texels,
        }

    def shown(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The share of points (N, 3), in world units, that a view holds in the mean, whether or not
        others hide them, of those that any of them holds, 1 without; and the depths of all that are
        held. A sample of points tells."""
        sample = points[:: len(points) // POINTS + 1]
        times, depths = np.zeros(len(sample), int), [np.zeros(0)]
        for camera in self.cameras:
            which, _, depth = camera.pixels(sample)
            times[which] += 1
            depths.append(depth)
        held = times[times > 0]
        share = float(held.mean()) / len(self.cameras) if len(held) else 1.0
        return share, np.concatenate(depths)

    def packed(self) -> np.ndarray:
        """The contract's Camera struct of each view."""
        numbers = self.numbers or [0] * len(self.cameras)
        return np.stack(
            [camera_data(c, number=n) for c, n in zip(self.cameras, numbers, strict=True)]
        )


def canvas_of(cameras: Sequence[Camera]) -> tuple[int, int]:
    """Width and height that hold the images of all cameras, px."""
    return max(c.width for c in cameras), max(c.height for c in cameras)


def training_views(scene: Scene) -> Views:
    """The views that a scene has for training, for a canvas that holds those held out as well."""
    cameras, train = [view.camera for view in scene.views], [scene.views[i] for i in scene.train]
    faces = set(Counter(view.group for view in train).values())
    return Views(
        [view.camera for view in train],
        canvas_of(cameras),
        scene.extent,
        [view.number for view in train],
        distorted=any(camera.distortion for camera in cameras),
        faces=faces.pop() if len(faces) == 1 else 1,
    )
