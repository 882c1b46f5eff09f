"""Scenes whose cameras are in transforms.json: NeRF-synthetic, nerfstudio and instant-ngp.

    transforms_train.json, transforms_test.json    NeRF-synthetic: camera_angle_x, RGBA pictures,
        file_path without extension
    transforms.json                                nerfstudio, instant-ngp: fl_x fl_y cx cy w h and
        distortion, for all frames or for each

What instant-ngp does to such poses on load (scale, offset, aabb_scale, its order of axes) and
nerfstudio (centring, scaling) moves their own grids. Here the poses stay as the file has them.
file_path, mask_path and ply_file_path stay below the scene's folder, as in what these tools write.
A path that leads out of it is refused, since a scene of other people must not read other files.
Formats: https://docs.nerf.studio/quickstart/data_conventions.html,
https://github.com/NVlabs/instant-ngp/blob/master/docs/nerf_dataset_tips.md.
"""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats.ply import load_points
from hardsplat.io.media.images import image_size
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.colmap import read_model
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import Posed, SceneSource, stays_below
from hardsplat.io.scenes.values import (
    LARGEST,
    LARGEST_SIDE,
    OPENGL_TO_OPENCV,
    array_in,
    json_in,
    number_in,
)
from hardsplat.model.camera import Camera

SINGLE, SPLIT = "transforms.json", "transforms_train.json"
_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG", ".webp")
_PERSPECTIVE = "OPENCV FULL_OPENCV PINHOLE SIMPLE_PINHOLE SIMPLE_RADIAL RADIAL PERSPECTIVE".split()
_FISHEYE = ["OPENCV_FISHEYE", "FISHEYE"]


def has_transforms(root: Path) -> bool:
    return (root / SINGLE).is_file() or (root / SPLIT).is_file()


def read_transforms(root: Path, data_factor: int = 1) -> SceneSource:
    """The scene in `root`; photographs are only looked at for their size, and may be missing.
    UserError for anything else missing, damaged or contradictory."""
    main = root / (SPLIT if (root / SPLIT).is_file() else SINGLE)
    top, frames = _file(main)
    reader = _Reader(root, data_factor)
    photographs, held_out = reader.photographs(main, top, frames), None
    if main.name == SPLIT:
        rest = [root / f"transforms_{name}.json" for name in ("test", "val")]
        for file in [path for path in rest if path.is_file()][:1]:
            tests = reader.photographs(file, *_file(file))
            held_out = {p.name for p in tests}
            if both := held_out & {p.name for p in photographs}:
                advice = "a photograph is for training or for testing"
                raise UserError(f"{file}: {min(both)} is in {main.name} too; {advice}")
            photographs = photographs + tests
    else:
        photographs, held_out = _listed(main, top, photographs, reader.names)
    points, colors = _points(root, main, top)
    return SceneSource(str(main), photographs, points, colors, held_out)


class _Reader:
    """Turns frames into posed photographs; numbers cameras with the same intrinsics alike, so that
    their maps of distortion are shared."""

    def __init__(self, root: Path, data_factor: int):
        self.root, self.data_factor, self.masks = root, data_factor, Masks(root)
        self.ids: dict[tuple, int] = {}
        self.names: dict[str, str] = {}  # file_path as written -> name

    def photographs(self, file: Path, top: dict, frames: list) -> list[Posed]:
        out, seen = [], set()
        for number, frame in enumerate(frames, 1):
            where = f"{file}: frame {number}"
            if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str):
                raise UserError(f"{where}: has no file_path")
            where += f" ({frame['file_path'][:80]})"
            posed = self._photograph(where, top | frame)
            if posed.name in seen:
                raise UserError(f"{where}: two frames have this photograph")
            seen.add(posed.name)
            self.names[_normal(frame["file_path"])] = posed.name
            out.append(posed)
        return out

    def _photograph(self, where: str, values: dict) -> Posed:
        name = self._file(where, values["file_path"])
        path, divisor = self.root / name, 1
        width, height = (_number(where, values, key) for key in ("w", "h"))
        if width is None or height is None:
            # one that is missing may be excluded
            width, height = image_size(path) if os.path.isfile(path) else (1, 1)
        if not all(float(n).is_integer() and 0 < n <= LARGEST_SIDE for n in (width, height)):
            what = f"image size {width:g}x{height:g} is not in whole pixels"
            raise UserError(f"{where}: {what}, 1..{LARGEST_SIDE}")
        size = int(width), int(height)
        smaller = path.parent.with_name(f"{path.parent.name}_{self.data_factor}") / path.name
        if self.data_factor > 1 and path.parent != self.root and os.path.isfile(smaller):
            path, divisor = smaller, self.data_factor
        model, params = _intrinsics(where, values, *size)
        number = self.ids.setdefault((model, *size, *params), len(self.ids) + 1)
        lens = ColmapCamera(number, model, *size, np.array(params))
        try:
            pinhole = Camera(_world_to_camera(where, values), intrinsics(lens), *size)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
        return Posed(name, path, pinhole, lens, self._mask(where, values, name), divisor)

    def _mask(self, where: str, values: dict, name: str) -> Path | None:
        """mask_path, else the file below masks/, where images/ may be missing."""
        if (named := values.get("mask_path")) is not None:
            advice = "remove mask_path to train on the whole photograph"
            return _file_below(self.root, named, f"{where}: mask_path", advice)
        return self.masks.of(name.removeprefix("images/")) or self.masks.of(name)

    def _file(self, where: str, file_path: str) -> str:
        """The photograph's path below the scene, with the extension that file_path may lack; as it
        is where there is no such file."""
        name = _normal(file_path)
        if not name or not stays_below(name):
            advice = "move the photographs there and rename it"
            raise UserError(f"{where}: file_path leads out of {self.root}; {advice}")
        files = (name + suffix for suffix in _SUFFIXES)
        return next((file for file in files if os.path.isfile(self.root / file)), name)


def _file(path: Path) -> tuple[dict, list]:
    """The file's settings, and its frames."""
    top = json_in(path)
    frames = top.get("frames") if isinstance(top, dict) else None
    if not isinstance(frames, list) or not frames:
        raise UserError(f"{path}: holds no list of frames")
    return {key: value for key, value in top.items() if key != "frames"}, frames


def _file_below(root: Path, named, where: str, advice: str) -> Path:
    """The file that a path of transforms.json names. UserError, with what to do instead, where that
    is none below the scene."""
    if not isinstance(named, str) or not named:
        what = f"is {str(named)[:80]!r}, expected the path of a file below {root}"
        raise UserError(f"{where} {what}; {advice}")
    if not stays_below(named):
        what = f"{named[:80]!r} leads out of {root}"
        raise UserError(f"{where}: {what}; move the file there, or {advice}")
    if not os.path.isfile(root / named):
        raise UserError(f"{where}: {root / named[:80]} not found; {advice}")
    return root / named


def _normal(file_path: str) -> str:
    return "" if file_path in ("", ".") else str(PurePosixPath(file_path))


def _number(where: str, values: dict, key: str, default: float | None = None) -> float | None:
    return default if values.get(key) is None else number_in(where, values, key)


def _intrinsics(where: str, values: dict, width: int, height: int) -> tuple[str, list]:
    """COLMAP's name for the model, and its parameters in pixels."""

    def number(key, default=None):
        return _number(where, values, key, default)

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
    fx = focal("fl_x", width, "camera_angle_x")
    if fx is None:
        raise UserError(f"{where}: neither fl_x nor camera_angle_x says how wide the camera sees")
    fy = focal("fl_y", height, "camera_angle_y")
    params = [fx, fx if fy is None else fy, number("cx", width / 2), number("cy", height / 2)]
    if model in _FISHEYE or values.get("is_fisheye") is True:
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


def _matrix(where: str, values: dict, key: str) -> np.ndarray:
    """(3, 4) float64, finite, of a matrix of 3 or 4 rows."""
    matrix = array_in(where, values, key)
    if matrix.shape not in ((4, 4), (3, 4)):
        raise UserError(f"{where}: {key} is not a 4x4 matrix of numbers")
    if not (np.abs(matrix) <= LARGEST).all():
        raise UserError(f"{where}: {key} has a NaN or infinite number")
    if len(matrix) == 4 and np.abs(matrix[3] - [0, 0, 0, 1]).max() > 1e-3:
        raise UserError(f"{where}: {key} ends in the row {matrix[3].tolist()} instead of 0 0 0 1")
    return matrix[:3]


def _world_to_camera(where: str, values: dict) -> np.ndarray:
    """(4, 4) in our OpenCV frame; transform_matrix is camera to world in OpenGL's."""
    matrix = _matrix(where, values, "transform_matrix")
    R = (matrix[:, :3] @ OPENGL_TO_OPENCV).T
    w2c = np.eye(4)
    w2c[:3, :3], w2c[:3, 3] = R, -R @ matrix[:, 3]
    return w2c


def _listed(
    file: Path, top: dict, photographs: list[Posed], names: dict[str, str]
) -> tuple[list[Posed], set[str] | None]:
    """The frames that nerfstudio's lists of file names choose, and the names of those held out;
    None where no list says so."""
    lists = {}
    for key in ("train_filenames", "test_filenames", "val_filenames"):
        listed = top.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise UserError(f"{file}: {key} is not a list of file names")
        if unknown := [name for name in listed if _normal(name) not in names]:
            what = f"{key} has {unknown[0][:80]}"
            raise UserError(f"{file}: {what}, which is the file_path of no frame")
        lists[key] = {names[_normal(name)] for name in listed}
    held_out = lists["test_filenames"] or lists["val_filenames"]
    others = {p.name for p in photographs} - held_out - lists["val_filenames"]
    used = held_out | (lists["train_filenames"] - held_out or others)
    return [p for p in photographs if p.name in used], held_out or None


def _points(root: Path, file: Path, top: dict) -> tuple[np.ndarray, np.ndarray]:
    """Positions (N, 3) and colours (N, 3): of ply_file_path, else of the COLMAP model that
    nerfstudio leaves beside; N = 0 without either."""
    if (named := top.get("ply_file_path")) is not None:
        advice = "remove it there to start from random points"
        return load_points(_file_below(root, named, f"{file}: ply_file_path", advice))
    model = root / "colmap" / "sparse" / "0"
    if not model.is_dir():
        return np.empty((0, 3)), np.empty((0, 3), np.uint8)
    points = read_model(model)[2]
    # The poses have been moved by this since COLMAP; its points have not.
    key = "applied_transform"
    moved = _matrix(str(file), top, key) if key in top else np.eye(4)[:3]
    return points.xyz @ moved[:, :3].T + moved[:, 3], points.rgb
