"""The camera of a frame of transforms.json, by COLMAP's name for its lens, with checks of what
programs write in other units."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.values import optional_number

_PERSPECTIVE = "OPENCV FULL_OPENCV PINHOLE SIMPLE_PINHOLE SIMPLE_RADIAL RADIAL PERSPECTIVE".split()
_FISHEYE = ["OPENCV_FISHEYE", "FISHEYE"]
# what instant-ngp says of lenses that are none of these
_OTHERS = ("latlong", "equirectangular", "orthographic", "ftheta_p0")
# half the width of a picture over its focal length, beyond which that is no number of pixels:
# tan 85 degrees of a perspective lens, the angle itself of a fisheye
_WIDEST = {False: 11.4, True: math.pi}
_LONGEST = 200  # times the longer side, where a picture shows a third of a degree
_UNEVEN = 3  # times the other focal length: films are stretched to twice their width at most
_FEWEST = 16  # px of a side, above which a principal point of 0 to 1 is no place in pixels
MIDDLE = 0.25, 0.75  # of the sides: where a principal point is expected
_ANGLE_ERROR = 0.05  # of the focal length that camera_angle_x gives


def camera_of(
    where: str, values: dict, width: int, height: int, unsized: bool
) -> tuple[str, list[float], str]:
    """COLMAP's name for the model, its parameters in pixels, and what to say of them, or "".

    unsized: the file does not give the size, which is that of the photograph. Raises UserError for
    numbers that do not fit a picture of this size.
    """
    model, params = _intrinsics(where, values, width, height)
    if model == PANORAMA:
        return model, params, ""
    fisheye, note = model == "OPENCV_FISHEYE", ""
    if values.get("fl_x") is not None and 0.5 * width > _WIDEST[fisheye] * params[0] > 0:
        what = f"fl_x is {params[0]:g}, too little for pictures {width} pixels wide"
        raise UserError(f"{where}: {what}; give it in pixels")
    if 0 < params[2] <= 1 and 0 < params[3] <= 1 and min(width, height) > _FEWEST:
        params[2], params[3] = params[2] * width, params[3] * height
        note = "cx and cy, the principal point, are read as shares of width and height"
    if unsized:
        _check_size(where, values, fisheye, params, width, height)
    return model, params, note


def is_central(at: Sequence[float] | np.ndarray, width: int, height: int) -> bool:
    """Whether a principal point is where one is expected, about the middle of a picture."""
    low, high = MIDDLE
    return low < at[0] / width < high and low < at[1] / height < high


def is_usual(K: np.ndarray, lens: ColmapCamera) -> bool:
    """Whether focal lengths along x and y, of intrinsics K, are such as lenses have."""
    side, focals = max(lens.width, lens.height), (K[0, 0], K[1, 1])
    least, most = min(focals), max(focals)
    wide = 0.5 * side > _WIDEST["FISHEYE" in lens.model] * least
    return not wide and most <= min(_LONGEST * side, _UNEVEN * least)


def _check_size(
    where: str, values: dict, fisheye: bool, params: list, width: int, height: int
) -> None:
    """UserError where focal length and principal point are for pictures of another size."""
    fx, _, cx, cy = params[:4]
    size = f"a photograph of {width}x{height}"
    what = ""
    if not is_central((cx, cy), width, height):
        what = f"the principal point ({cx:g}, {cy:g}) is not near the middle of {size}"
    angle = optional_number(where, values, "camera_angle_x")
    if values.get("fl_x") is not None and angle and 0 < angle < math.pi and not fisheye:
        wanted = 0.5 * width / math.tan(0.5 * angle)
        if abs(wanted - fx) > _ANGLE_ERROR * fx:
            what = what or f"fl_x {fx:g} and camera_angle_x {angle:g} do not fit {size}"
    if what:
        raise UserError(f"{where}: {what}; add w and h, the size that fl_x and cx are for")


def _intrinsics(where: str, values: dict, width: int, height: int) -> tuple[str, list]:
    """COLMAP's name for the model, and its parameters in pixels."""

    def number(key, default=None):
        return optional_number(where, values, key, default)

    def focal(key, side, angle_key):
        if (given := number(key)) is not None or (angle := number(angle_key)) is None:
            return given
        if not 0 < angle < math.pi:
            wanted = "expected an angle in radians between 0 and pi"
            raise UserError(f"{where}: {angle_key} is {angle:g}, {wanted}")
        return 0.5 * side / math.tan(0.5 * angle)

    model = str(values.get("camera_model", "OPENCV")).upper()
    if model == PANORAMA:
        return PANORAMA, [float(width), float(height)]
    if others := [key for key in _OTHERS if str(values.get(key)) not in ("None", "False")]:
        what = f"{others[0]} says that the lens is none that is read here"
        raise UserError(f"{where}: {what}; panoramas have the camera_model {PANORAMA}")
    if (is_fisheye := values.get("is_fisheye")) not in (None, False, True):
        what = f"is_fisheye is {str(is_fisheye)[:40]}, expected true or false"
        raise UserError(f"{where}: {what}")
    fx = focal("fl_x", width, "camera_angle_x")
    if fx is None:
        raise UserError(f"{where}: neither fl_x nor camera_angle_x says how wide the camera sees")
    fy = focal("fl_y", height, "camera_angle_y")
    params = [fx, fx if fy is None else fy, number("cx", width / 2), number("cy", height / 2)]
    if model in _FISHEYE or is_fisheye:
        return "OPENCV_FISHEYE", params + [number(f"k{i}", 0.0) for i in range(1, 5)]
    if model not in _PERSPECTIVE:
        known = ", ".join([*_PERSPECTIVE, *_FISHEYE, PANORAMA])
        raise UserError(f"{where}: camera_model {model[:40]} is not supported; there are {known}")
    if higher := [key for key in ("k4", "k5", "k6") if number(key, 0.0)]:
        what = f"{higher[0]} of a perspective camera means different things to different tools"
        raise UserError(f"{where}: {what}; undistort the photographs first")
    k1, k2, p1, p2, k3 = (number(key, 0.0) for key in ("k1", "k2", "p1", "p2", "k3"))
    if k3:
        return "FULL_OPENCV", params + [k1, k2, p1, p2, k3, 0.0, 0.0, 0.0]
    return ("OPENCV", params + [k1, k2, p1, p2]) if any((k1, k2, p1, p2)) else ("PINHOLE", params)
