"""What cameras see of a surface: depth and colour, and which pixels points fall on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hardsplat.base.progress import through
from hardsplat.model.camera import Camera
from hardsplat.render.painter import Painter

DEPTHS = ("median", "surface", "expected")
_COVERED = 0.5  # opacity from which on a pixel shows a surface


class DepthView(NamedTuple):
    """What a pinhole sees. depth: (H, W) float32 along its axis, world units, 0 where light passes.
    color: (H, W, 3) uint8."""

    camera: Camera
    depth: np.ndarray
    color: np.ndarray


class SplatViews:
    """The views of cameras on splats, drawn again each time that they are gone through.

    painter: with the pictures PICTURES. depth: of DEPTHS. what: a word for the progress bar, which
    the caller changes.
    """

    PICTURES = ("image", "surface", "median", "depth", "alpha")

    def __init__(self, painter: Painter, cameras: Sequence[Camera], depth: str, quiet: bool):
        # splats are drawn as a pinhole sees them, whatever lens their photographs came through
        self.cameras = [Camera(c.w2c, c.K, c.width, c.height) for c in cameras]
        self.what, self._painter, self._depth, self._quiet = "drawing", painter, depth, quiet

    def __len__(self) -> int:
        return len(self.cameras)

    def __iter__(self) -> Iterator[DepthView]:
        for camera in through(self.cameras, self.what, self._quiet):
            if self._depth != "expected":
                depth = self._painter.values(self._depth, camera)
            else:
                covered = self._painter.values("alpha", camera) >= _COVERED
                depth = np.where(covered, self._painter.values("depth", camera), 0)
            yield DepthView(camera, depth, self._painter.draw("image", camera)[..., :3])


def rays_of(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """(H, W, 3) places of a pinhole's pixel centres at depth 1, from its own place (3,), in world
    units."""
    x = (np.arange(camera.width) + 0.5 - camera.K[0, 2]) / camera.K[0, 0]
    y = (np.arange(camera.height) + 0.5 - camera.K[1, 2]) / camera.K[1, 1]
    R = camera.w2c[:3, :3]
    return x[None, :, None] * R[0] + y[:, None, None] * R[1] + R[2], camera.position


def pixels_of(camera: Camera, at: np.ndarray) -> tuple[np.ndarray, ...]:
    """at: (3, ...) points in the frame of a pinhole -> x and y in its pixels (...), and whether the
    image holds them (...)."""
    ahead = at[2] > 0
    per = 1 / np.where(ahead, at[2], 1)
    x = at[0] * per * at.dtype.type(camera.K[0, 0]) + at.dtype.type(camera.K[0, 2])
    y = at[1] * per * at.dtype.type(camera.K[1, 1]) + at.dtype.type(camera.K[1, 2])
    return x, y, ahead & (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)
