"""Pinhole camera. Frame: OpenCV, +x right, +y down, +z forward; units of the scene; pixel centres at +0.5."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np


@dataclass(frozen=True)
class Camera:
    """One view.

    w2c:    (4, 4) world to camera, rigid, world units.
    K:      (3, 3) intrinsics in pixels: [[fx, 0, cx], [0, fy, cy], [0, 0, 1]].
    width, height: image size in pixels.
    Raises ValueError for anything else.
    """

    w2c: np.ndarray
    K: np.ndarray
    width: int
    height: int

    def __post_init__(self):
        object.__setattr__(self, "w2c", np.asarray(self.w2c, np.float64))
        object.__setattr__(self, "K", np.asarray(self.K, np.float64))
        if self.w2c.shape != (4, 4) or self.K.shape != (3, 3):
            raise ValueError(f"camera needs w2c (4, 4) and K (3, 3), got {self.w2c.shape} and {self.K.shape}")
        if not (np.isfinite(self.w2c).all() and np.isfinite(self.K).all()):
            raise ValueError("camera has a NaN or infinite number in its pose or intrinsics")
        if problem := _not_rigid(self.w2c):
            raise ValueError(f"camera needs a rigid w2c, {problem}")
        if not (self.K[0, 0] > 0 and self.K[1, 1] > 0):
            raise ValueError(f"camera needs positive focal lengths, got {self.K[0, 0]:g} and {self.K[1, 1]:g} (the frame is OpenCV: +y down, +z forward)")
        if self.K[0, 1] or self.K[1, 0] or self.K[2].tolist() != [0, 0, 1]:
            raise ValueError(f"camera needs K = [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], without skew, got {self.K.tolist()}")
        for side in ("width", "height"):
            try:
                object.__setattr__(self, side, index(getattr(self, side)))
            except TypeError:
                raise ValueError(f"camera {side} {getattr(self, side)!r} is not an integer") from None
        if self.width < 1 or self.height < 1:
            raise ValueError(f"camera image size must be positive, got {self.width}x{self.height}")

    @property
    def position(self) -> np.ndarray:
        """(3,) camera centre in world units."""
        return -self.w2c[:3, :3].T @ self.w2c[:3, 3]

    def resized(self, width: int, height: int) -> Camera:
        """The same view sampled at another image size; focal lengths and centre scale with it."""
        scale = np.diag([width / self.width, height / self.height, 1.0])
        return Camera(self.w2c, scale @ self.K, width, height)


def _not_rigid(w2c: np.ndarray) -> str:
    """What keeps a (4, 4) matrix from being a rotation and a translation, within 1e-3; empty when nothing does."""
    if np.abs(w2c[3] - [0, 0, 0, 1]).max() > 1e-3:
        return f"its last row is {w2c[3].tolist()} instead of 0 0 0 1" + ("; it looks transposed" if not w2c[:3, 3].any() else "")
    R = w2c[:3, :3]
    if np.abs(R @ R.T - np.eye(3)).max() <= 1e-3:
        return "" if np.linalg.det(R) > 0 else "its 3x3 is a reflection (determinant -1), not a rotation"
    sizes = np.linalg.svd(R, compute_uv=False)
    if sizes[0] - sizes[2] <= 1e-3 * sizes[0]:
        return f"its 3x3 is a rotation scaled by {sizes.mean():g}"
    return f"its 3x3 is no rotation: it stretches by {sizes[0]:g}, {sizes[1]:g} and {sizes[2]:g}"
