"""Undistortion: from a photograph through a real lens to the one an ideal pinhole camera would have
taken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera
from hardsplat.model.camera import Distortion

# COLMAP's models that OpenCV has too: what follows the principal point are its coefficients
_PERSPECTIVE = "SIMPLE_PINHOLE PINHOLE SIMPLE_RADIAL RADIAL OPENCV FULL_OPENCV".split()
_FISHEYE = "SIMPLE_FISHEYE FISHEYE SIMPLE_RADIAL_FISHEYE RADIAL_FISHEYE OPENCV_FISHEYE".split()
# OpenCV has pixel centres at integers, COLMAP and Camera at +0.5
_HALF = np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])
_ADVICE = (
    "undistort first: colmap image_undistorter --image_path IMAGES --input_path sparse/0 "
    "--output_path UNDISTORTED"
)


def intrinsics(camera: ColmapCamera) -> np.ndarray:
    """K (3, 3) in pixels without the distortion; of a panorama, px a radian. UserError for a model
    that has neither here."""
    if camera.model == PANORAMA:
        w, h = camera.width, camera.height
        return np.array([[w / (2 * np.pi), 0, w / 2], [0, h / np.pi, h / 2], [0, 0, 1]])
    if camera.model not in _PERSPECTIVE + _FISHEYE:
        what = f"lens model {camera.model} is not supported"
        raise UserError(f"camera {camera.id}: {what}; {_ADVICE}")
    focals, numbers = CAMERA_MODELS[camera.model][1], camera.params
    fx, fy, (cx, cy) = numbers[0], numbers[focals - 1], numbers[focals : focals + 2]
    return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])


@dataclass(frozen=True)
class Lens:
    """A distorted camera for images of one size.

    label: for messages. fisheye: OpenCV's equidistant model instead of its radial-tangential one.
    coefficients: OpenCV's. K: (9,) intrinsics in pixels, row-major. width, height: pixels.
    Hashable, so maps can be cached.
    """

    label: str
    fisheye: bool
    coefficients: tuple[float, ...]
    K: tuple[float, ...]
    width: int
    height: int

    @classmethod
    def of(cls, camera: ColmapCamera, K: np.ndarray, width: int, height: int) -> Lens | None:
        """The lens of a camera whose images were resized to width x height, where its intrinsics
        are K. None when it does not distort."""
        fisheye = camera.model in _FISHEYE
        own = camera.params[CAMERA_MODELS[camera.model][1] + 2 :]
        coefficients = np.zeros(4 if fisheye else 8)
        coefficients[: len(own)] = own
        if not fisheye and not coefficients.any():
            return None
        numbers = tuple(coefficients.tolist()), tuple(K.ravel().tolist())
        return cls(f"camera {camera.id} ({camera.model})", fisheye, *numbers, width, height)

    @property
    def distortion(self) -> Distortion:
        """Distortion of a camera whose photographs stay as they are."""
        return Distortion(self.fisheye, self.coefficients)

    def pinhole_K(self) -> np.ndarray:
        """(3, 3) the pinhole camera of the same image size that sees only what the photograph
        shows: no black borders."""
        # undistorts, for which imageio has nothing; its import takes a tenth of a second
        import cv2

        K, d, size = self._opencv()
        try:
            if self.fisheye:
                estimate = cv2.fisheye.estimateNewCameraMatrixForUndistortRectify
                new = estimate(K, d, size, np.eye(3), balance=0.0)
            else:
                new, _ = cv2.getOptimalNewCameraMatrix(K, d, size, 0)
        except cv2.error:
            new = np.zeros((3, 3))
        if not (np.isfinite(new).all() and new[0, 0] > 0 and new[1, 1] > 0):
            self._refuse()
        return new + _HALF

    def undistort(self, image: np.ndarray) -> np.ndarray:
        """(height, width, 3 or 4) uint8 photograph -> the same view through pinhole_K, bilinear.
        UserError when the model does not invert."""
        import cv2

        # The border is found from a few samples, so a fraction of a pixel may lie beyond it, where
        # the edge is repeated.
        return cv2.remap(image, *_maps(self), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)

    def distort(self, mask: np.ndarray) -> np.ndarray:
        """(height, width) uint8 over the pixels of pinhole_K -> the mask of the photograph, white
        where that shows more."""
        import cv2

        K, d, size = self._opencv()
        x, y = np.meshgrid(*(np.arange(n, dtype=np.float64) for n in size))
        undistort = cv2.fisheye.undistortPoints if self.fisheye else cv2.undistortPoints
        at = undistort(np.stack([x, y], 2).reshape(-1, 1, 2), K, d, P=self.pinhole_K() - _HALF)
        maps = at.reshape(self.height, self.width, 2).astype(np.float32)
        x, y = np.split(maps, 2, axis=2)
        return cv2.remap(
            mask, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=255
        )

    def _opencv(self):
        K, size = np.reshape(self.K, (3, 3)) - _HALF, (self.width, self.height)
        return K, np.array(self.coefficients), size

    def _refuse(self):
        what = f"its distortion cannot be undone over the whole {self.width}x{self.height} image"
        raise UserError(f"{self.label}: {what}; {_ADVICE}")


@lru_cache(maxsize=2)  # photographs come grouped by camera; a map takes 8 bytes a pixel
def _maps(lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """Two (height, width) float32: where in the photograph each pixel of the pinhole image lies,
    OpenCV pixel coordinates."""
    import cv2

    K, d, size = lens._opencv()
    make = cv2.fisheye.initUndistortRectifyMap if lens.fisheye else cv2.initUndistortRectifyMap
    x, y = make(K, d, np.eye(3), lens.pinhole_K() - _HALF, size, cv2.CV_32FC1)
    inside = (x > -1) & (x < lens.width) & (y > -1) & (y < lens.height)
    if not inside.all():
        lens._refuse()
    return x, y
