"""What a COLMAP sparse model is made of. Frame: OpenCV (+x right, +y down, +z forward), pixel
centres at +0.5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsplat.model.camera import rotation_matrix

# name: (id in binary files, number of focal lengths, number of parameters); the focal lengths come
# first, then the principal point. The two parameters of the last are the image size.
CAMERA_MODELS = {
    "SIMPLE_PINHOLE": (0, 1, 3),         "PINHOLE": (1, 2, 4),
    "SIMPLE_RADIAL": (2, 1, 4),          "RADIAL": (3, 1, 5),
    "OPENCV": (4, 2, 8),                 "OPENCV_FISHEYE": (5, 2, 8),
    "FULL_OPENCV": (6, 2, 12),           "FOV": (7, 2, 5),
    "SIMPLE_RADIAL_FISHEYE": (8, 1, 4),  "RADIAL_FISHEYE": (9, 1, 5),
    "THIN_PRISM_FISHEYE": (10, 2, 12),   "RAD_TAN_THIN_PRISM_FISHEYE": (11, 2, 16),
    "SIMPLE_DIVISION": (12, 1, 4),       "DIVISION": (13, 2, 5),
    "SIMPLE_FISHEYE": (14, 1, 3),        "FISHEYE": (15, 2, 4),
    "EUCM": (16, 2, 6),                  "EQUIRECTANGULAR": (17, 0, 2),
}  # fmt: skip


@dataclass
class ColmapCamera:
    """Intrinsics shared by images. model: a key of CAMERA_MODELS; width, height: pixels; params:
    (P,) float64 in COLMAP's order."""

    id: int
    model: str
    width: int
    height: int
    params: np.ndarray


@dataclass
class ColmapImage:
    """One posed image. qvec: (4,) float64 wxyz and tvec: (3,) float64, world to camera; need not be
    normalized; name: path below the image folder."""

    id: int
    name: str
    camera_id: int
    qvec: np.ndarray
    tvec: np.ndarray

    @property
    def w2c(self) -> np.ndarray:
        """(4, 4) float64 rigid world-to-camera matrix."""
        out = np.eye(4)
        out[:3, :3] = rotation_matrix(*self.qvec / np.linalg.norm(self.qvec))
        out[:3, 3] = self.tvec
        return out


@dataclass
class ColmapPoints:
    """Triangulated points. xyz: (N, 3) float64 world units; rgb: (N, 3) uint8."""

    xyz: np.ndarray
    rgb: np.ndarray
