"""Undistortion: from a photograph through a real lens to the one an ideal pinhole camera would have
taken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera
from hardsplat.model.camera import (
    STEEPEST,
    Camera,
    Distortion,
    RayField,
    field_of,
    is_regular,
    pixels_of,
)

# COLMAP's models that OpenCV has too: what follows the principal point are its coefficients
_PERSPECTIVE = "SIMPLE_PINHOLE PINHOLE SIMPLE_RADIAL RADIAL OPENCV FULL_OPENCV".split()
_FISHEYE = "SIMPLE_FISHEYE FISHEYE SIMPLE_RADIAL_FISHEYE RADIAL_FISHEYE OPENCV_FISHEYE".split()
# OpenCV has pixel centres at integers, COLMAP and Camera at +0.5
_HALF = np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])
_ADVICE = (
    "undistort first: colmap image_undistorter --image_path IMAGES --input_path sparse/0 "
    "--output_path UNDISTORTED"
)
# tangent of the angle from the axis, 70 degrees, beyond which a pinhole takes more and more pixels
# for less and less
_WIDEST = 2.75
_LEAST = 0.1  # of a picture, that must be left of it
_SAMPLES = 65  # of a side, at which maps are checked


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
        label, numbers = f"camera {camera.id} ({camera.model})", tuple(coefficients.tolist())
        return cls(label, fisheye, numbers, tuple(K.ravel().tolist()), width, height)

    @property
    def distortion(self) -> Distortion:
        """Distortion of a camera whose photographs stay as they are."""
        return Distortion(self.fisheye, self.coefficients)

    def pinhole_K(self) -> np.ndarray:
        """(3, 3) the pinhole camera of the same image size that sees only what the photograph
        shows, no black borders, and each place once. Raises UserError where that is too little."""
        return np.reshape(_pinhole(self), (3, 3))

    def _whole_K(self) -> np.ndarray:
        """(3, 3) the pinhole that sees all but the curved edges of the photograph, if there is
        one."""
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
        return new + _HALF

    @property
    def camera(self) -> Camera:
        """It takes the photographs as they are, at the origin."""
        return Camera(
            np.eye(4), np.reshape(self.K, (3, 3)), self.width, self.height, self.distortion
        )

    @property
    def field(self) -> RayField:
        return _field(self)

    @property
    def left(self) -> float:
        """The share of a photograph that pinhole_K shows where its rim is cut away, else 1."""
        K, whole = self.pinhole_K(), self.field.whole
        return 1.0 if whole and np.array_equal(K, self._whole_K()) else self._share(K)

    @property
    def why_cut(self) -> str:
        """Why no pinhole shows all of the photograph, in words."""
        if self.field.folded:
            return "folds back within the picture"
        if self.field.steep:
            return f"sees {STEEPEST:.0f} degrees from its axis and more"
        return "sees more than a pinhole camera can show"

    def seen(self) -> np.ndarray:
        """(height, width) uint8, 255 where a ray leads to a pixel of the photograph, else 0."""
        import cv2

        out = np.zeros((self.height, self.width), np.uint8)
        corners = np.rint(np.clip(self.field.rim - 0.5, -1e6, 1e6)).astype(np.int32)
        return cv2.fillPoly(out, [corners], 255)

    def _shows(self, K: np.ndarray) -> bool:
        """Whether a pinhole sees nothing but the picture, each place once, and no more than a
        pinhole can show."""
        if not (np.isfinite(K).all() and K[0, 0] > 0 and K[1, 1] > 0):
            return False
        inside = (K[:2, 2] > 0).all() and (K[:2, 2] < (self.width, self.height)).all()
        rays = self._rays(K)
        at = pixels_of(self.camera, rays)
        border = (at >= -1).all() and (at <= (self.width + 1, self.height + 1)).all()
        wide = np.linalg.norm(rays, axis=-1).max() > _WIDEST
        return bool(inside and border and not wide and is_regular(at))

    def _rays(self, K: np.ndarray) -> np.ndarray:
        """(N, N, 2) x / z and y / z over the whole image of a pinhole."""
        x, y = (np.linspace(0, n, _SAMPLES) for n in (self.width, self.height))
        return (np.stack(np.meshgrid(x, y), axis=-1) - K[:2, 2]) / np.diag(K)[:2]

    def _cut_K(self) -> np.ndarray:
        """(3, 3) the pinhole of the lens's own principal point that sees as much as it can of what
        rays reach one to one. Raises UserError where that is little."""
        K = np.reshape(self.K, (3, 3)).copy()
        rays = self._rays(K)
        border = np.concatenate([rays[0], rays[-1], rays[:, 0], rays[:, -1]])
        most = np.minimum(self.field.limit(border), _WIDEST)
        scale = float((most / np.linalg.norm(border, axis=1)).min())
        if scale > 0:
            K[[0, 1], [0, 1]] /= 0.999 * scale  # no sample is beyond by rounding
            if self._shows(K) and self._share(K) >= _LEAST:
                return K
        self._refuse()

    def _share(self, K: np.ndarray) -> float:
        """The area that a pinhole shows of the photograph, over all of it."""
        at = pixels_of(self.camera, self._rays(K))
        x, y = np.concatenate([at[0], at[1:, -1], at[-1, -2::-1], at[-2:0:-1, 0]]).T
        area = 0.5 * abs(x @ np.roll(y, 1) - y @ np.roll(x, 1))
        return float(area / (self.width * self.height))

    def undistort(self, image: np.ndarray) -> np.ndarray:
        """(height, width, 3 or 4) uint8 photograph -> the same view through pinhole_K, bilinear.
        UserError when the model does not invert."""
        import cv2

        # The border is found from a few samples, so a fraction of a pixel may lie beyond it, where
        # the edge is repeated.
        return cv2.remap(image, *_maps(self), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)

    def _opencv(self):
        K, size = np.reshape(self.K, (3, 3)) - _HALF, (self.width, self.height)
        return K, np.array(self.coefficients), size

    def _refuse(self) -> NoReturn:
        what = f"its distortion cannot be undone over the whole {self.width}x{self.height} image"
        raise UserError(f"{self.label}: {what}; train with --no-undistort, or {_ADVICE}")


@lru_cache(maxsize=64)
def _field(lens: Lens) -> RayField:
    return field_of(lens.camera)


@lru_cache(maxsize=64)  # photographs of one camera share it
def _pinhole(lens: Lens) -> tuple[float, ...]:
    K = lens._whole_K()
    if not (lens.field.whole and lens._shows(K)):
        K = lens._cut_K()
    return tuple(K.ravel().tolist())


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
