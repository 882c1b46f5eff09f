"""Panoramas, equirectangular pictures of all directions, cut into the views of six pinhole cameras
at one point: the faces of a cube.

A panorama's camera looks along +z of its OpenCV axes: the middle of the picture; +x is a quarter
of its width to the right, +y its lower edge. COLMAP's EQUIRECTANGULAR is the same, and nerfstudio's
once its axes are turned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import changed_at
from hardsplat.model.camera import Camera

MODEL = "EQUIRECTANGULAR"
# by name, sorted: (3, 3) from the panorama's axes to those of the face
FACES: dict[str, np.ndarray] = {
    "back": np.diag([-1.0, 1, -1]),
    "down": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "front": np.eye(3),
    "left": np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]),
    "right": np.array([[0.0, 0, -1], [0, 1, 0], [1, 0, 0]]),
    "up": np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]),
}
_KEPT = 3  # panoramas in memory, of which six faces are cut one after the other
_WIDEST = 32_000  # px that OpenCV's remap takes


def is_whole(width: int, height: int) -> bool:
    """Whether a picture of this size may show all directions: it is twice as wide as high."""
    return width > 0 and abs(width - 2 * height) <= 0.01 * width


def face_side(width: int) -> int:
    """px of a face: in its middle it has as many for an angle as the panorama at the horizon."""
    return max(1, round(width / math.pi))


@dataclass(frozen=True)
class Face:
    """A view of a panorama, in the place of a Lens: how pictures of width x height px become side x
    side. label: for messages. name: a key of FACES. Hashable, so that maps can be cached."""

    label: str
    name: str
    width: int
    height: int
    side: int

    @property
    def K(self) -> np.ndarray:
        half = self.side / 2
        return np.array([[half, 0, half], [0, half, half], [0, 0, 1]])

    def undistort(self, image: np.ndarray) -> np.ndarray:
        """(height, width, ...) uint8 -> (side, side, ...), bilinear."""
        import cv2  # undistorts; its import takes a tenth of a second

        # a column of the other end on both sides, so that pixels in between are right
        wrapped = cv2.copyMakeBorder(image, 0, 0, 1, 1, cv2.BORDER_WRAP)
        return cv2.remap(wrapped, *_maps(self), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)

    def in_panorama(self, xy: np.ndarray) -> np.ndarray:
        """(N, 2) positions, px, in the panorama of (N, 2) in the face; pixel centres at +0.5."""
        x, y = xy.T / (self.side / 2) - 1
        ray = np.stack([x, y, np.ones_like(x)], axis=-1) @ FACES[self.name]
        along = np.arctan2(ray[:, 0], ray[:, 2]) / (2 * np.pi) + 0.5
        down = np.arctan2(ray[:, 1], np.hypot(ray[:, 0], ray[:, 2])) / np.pi + 0.5
        return np.stack([along * self.width, down * self.height], axis=-1)


@lru_cache(maxsize=12)  # photographs of one camera share six
def _maps(face: Face) -> tuple[np.ndarray, np.ndarray]:
    """Two (side, side) float32: where in the widened panorama each pixel lies, OpenCV pixels."""
    y, x = np.mgrid[: face.side, : face.side].reshape(2, -1) + 0.5
    u, v = face.in_panorama(np.stack([x, y], axis=-1)).T.reshape(2, face.side, face.side)
    return (u + 0.5).astype(np.float32), (v - 0.5).astype(np.float32)


def check_panorama(where: str, width: int, height: int) -> None:
    """Raises UserError where a picture of this size is no whole panorama."""
    if not is_whole(width, height):
        what = f"is {width}x{height}, and a panorama of all directions is twice as wide as high"
        raise UserError(f"{where}: {what}; crop nothing from it, or give its camera another model")


def faces_of(camera: Camera, label: str, width: int, height: int) -> list[tuple[Face, Camera]]:
    """The faces of a panorama of width x height px, with their cameras. camera: its pose. Raises
    UserError where it is too wide."""
    if width > _WIDEST:
        what = f"is {width} px wide, of which {_WIDEST} can be cut"
        raise UserError(f"{label}: {what}; use --data-factor 2, or make it smaller")
    side = face_side(width)
    out = []
    for name, turn in FACES.items():
        face, pose = Face(label, name, width, height, side), np.eye(4)
        pose[:3, :3] = turn
        shown = replace(camera, w2c=pose @ camera.w2c, K=face.K, width=side, height=side)
        out.append((face, shown))
    return out


@lru_cache(maxsize=_KEPT)
def _place(path: Path, changed: int, width: int, height: int) -> tuple[Lock, list[np.ndarray]]:
    """What holds a panorama once it is read, and the lock of whoever reads it."""
    return Lock(), []


def shared(path: Path, face: Face, read: Callable[[], np.ndarray]) -> np.ndarray:
    """What read() returns, the panorama of a face, for which several threads may ask at once. It
    must not be changed."""
    lock, held = _place(path, changed_at(path), face.width, face.height)
    with lock:
        if not held:
            held.append(read())
        return held[0]
