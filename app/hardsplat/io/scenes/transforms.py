"""Scenes whose cameras are in transforms.json: NeRF-synthetic, nerfstudio and instant-ngp, see
scenes/README.md.

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
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats.ply import load_points
from hardsplat.io.media.images import image_size
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.colmap import read_points
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.found import PhotographFiles
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import Posed, SceneSource, composed, has_control, located, slashed
from hardsplat.io.scenes.values import (
    LARGEST,
    LARGEST_SIDE,
    OPENGL_TO_OPENCV,
    array_in,
    json_in,
    optional_number,
)
from hardsplat.model.camera import Camera

SINGLE, SPLIT = "transforms.json", "transforms_train.json"
_SUFFIXES = (".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG", ".webp", ".heic", ".HEIC")
# clouds of points that programs leave beside, without naming them: Inria's for NeRF-synthetic, and
# nerfstudio's
_CLOUDS = ("points3d.ply", "points3D.ply", "sparse_pc.ply")
# names of lenses
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
_UNEQUAL = 1e-3  # of squared scales along the axes of a pose, up to which they are one
_ANGLE_ERROR = 0.05  # of the focal length that camera_angle_x gives


def read(root: Path, data_factor: int = 1) -> SceneSource:
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
    points, colors, found = _points(root, main, top)
    notes = (*(f"{main}: {note}" for note in sorted(reader.notes)), *found)
    notes += tuple(reader.files.notes(main.name))
    return SceneSource(str(main), photographs, points, colors, held_out, notes)


class _Reader:
    """Turns frames into posed photographs; numbers cameras with the same intrinsics alike, so that
    their maps of distortion are shared."""

    def __init__(self, root: Path, data_factor: int):
        self.root, self.data_factor, self.masks = root, data_factor, Masks(root)
        self.files = PhotographFiles(root, _SUFFIXES)
        self.smaller = PhotographFiles(root)
        self.ids: dict[tuple, int] = {}
        self.notes: set[str] = set()
        self.names: dict[str, str] = {}  # file_path as written -> name

    def photographs(self, file: Path, top: dict, frames: list) -> list[Posed]:
        for number, frame in enumerate(frames, 1):
            where = f"{file}: frame {number}"
            if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str):
                raise UserError(f"{where}: has no file_path")
            if has_control(frame["file_path"]):
                what = f"{where} ({frame['file_path'][:80]}): file_path has control characters"
                raise UserError(f"{what}; rename it")
        out, seen = [], set()
        files = self.files.of([frame["file_path"] for frame in frames])
        for number, (frame, name) in enumerate(zip(frames, files), 1):
            where = f"{file}: frame {number} ({frame['file_path'][:80]})"
            if not name:
                advice = "move the photographs there and rename it"
                raise UserError(f"{where}: file_path leads out of {self.root}; {advice}")
            posed = self._photograph(where, top | frame, name)
            if posed.name in seen:
                raise UserError(f"{where}: two frames have this photograph")
            seen.add(posed.name)
            self.names[_key(frame["file_path"])] = posed.name
            out.append(posed)
        return out

    def _photograph(self, where: str, values: dict, name: str) -> Posed:
        path, divisor = self.root / name, 1
        width, height = (optional_number(where, values, key) for key in ("w", "h"))
        # one that is missing may be excluded
        if unsized := (width is None or height is None) and os.path.isfile(path):
            width, height = image_size(path)
        elif width is None or height is None:
            width = height = 1
        if not all(float(n).is_integer() and 0 < n <= LARGEST_SIDE for n in (width, height)):
            what = f"image size {width:g}x{height:g} is not in whole pixels"
            raise UserError(f"{where}: {what}, 1..{LARGEST_SIDE}")
        width, height = int(width), int(height)
        if self.data_factor > 1 and path.parent != self.root:
            folder = path.parent.with_name(f"{path.parent.name}_{self.data_factor}")
            file = (folder / path.name).relative_to(self.root).as_posix()
            smaller = self.root / (self.smaller.of([file])[0] or file)
            if os.path.isfile(smaller):
                path, divisor = smaller, self.data_factor
        model, params, note = _camera_of(where, values, width, height, unsized)
        if note:
            self.notes.add(note)
        number = self.ids.setdefault((model, width, height, *params), len(self.ids) + 1)
        lens = ColmapCamera(number, model, width, height, np.array(params))
        try:
            pinhole = Camera(self._world_to_camera(where, values), intrinsics(lens), width, height)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
        return Posed(name, path, pinhole, lens, self._mask(where, values, name), divisor)

    def _world_to_camera(self, where: str, values: dict) -> np.ndarray:
        """(4, 4) in our OpenCV frame; transform_matrix is camera to world in OpenGL's, in some
        exports of a camera that is scaled, which changes neither its place nor what it sees."""
        matrix = _matrix(where, values, "transform_matrix")
        R, scale = (matrix[:, :3] @ OPENGL_TO_OPENCV).T, np.cbrt(np.linalg.det(matrix[:, :3]))
        if scale > 0 and np.abs(R @ R.T - scale**2 * np.eye(3)).max() <= _UNEQUAL * scale**2:
            if abs(scale - 1) > _UNEQUAL:
                self.notes.add("transform_matrix scales cameras, which is left out")
            R = R / scale
        w2c = np.eye(4)
        w2c[:3, :3], w2c[:3, 3] = R, -R @ matrix[:, 3]
        return w2c

    def _mask(self, where: str, values: dict, name: str) -> Path | None:
        """mask_path, else the file in the folder of masks."""
        if (named := values.get("mask_path")) is not None:
            advice = "remove mask_path to train on the whole photograph"
            return _file_below(self.root, named, f"{where}: mask_path", advice)
        return self.masks.of(name) or self.masks.of(_key(values["file_path"]))


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
    if (below := located(root, named)) is None:
        what = f"{named[:80]!r} leads out of {root}"
        raise UserError(f"{where}: {what}; move the file there, or {advice}")
    if not os.path.isfile(root / below):
        raise UserError(f"{where}: {root / below[:80]} not found; {advice}")
    return root / below


def _key(file_path: str) -> str:
    """Equal for all ways to write a path, so that a file's lists find its frames."""
    return str(PurePosixPath(slashed(composed(file_path))))


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
        if unknown := [name for name in listed if _key(name) not in names]:
            what = f"{key} has {unknown[0][:80]}"
            raise UserError(f"{file}: {what}, which is the file_path of no frame")
        lists[key] = {names[_key(name)] for name in listed}
    held_out = lists["test_filenames"] or lists["val_filenames"]
    others = {p.name for p in photographs} - held_out - lists["val_filenames"]
    used = held_out | (lists["train_filenames"] - held_out or others)
    return [p for p in photographs if p.name in used], held_out or None


def _points(root: Path, file: Path, top: dict) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Positions (N, 3), colours (N, 3), and what to say of them: of ply_file_path, else of a cloud
    that lies beside, or of the COLMAP model that nerfstudio leaves there; N = 0 without any."""
    if (named := top.get("ply_file_path")) is not None:
        advice = "remove it there to start from random points"
        return *load_points(_file_below(root, named, f"{file}: ply_file_path", advice)), []
    if cloud := next((root / name for name in _CLOUDS if os.path.isfile(root / name)), None):
        return *load_points(cloud), [f"the first splats are at the points of {cloud}"]
    points = read_points(root / "colmap" / "sparse" / "0")
    # The poses have been moved and scaled by these since COLMAP; its points have not.
    key = "applied_transform"
    moved = _matrix(str(file), top, key) if key in top else np.eye(4)[:3]
    scale = optional_number(str(file), top, "applied_scale") or 1.0
    return scale * (points.xyz @ moved[:, :3].T + moved[:, 3]), points.rgb, []


# -- the camera of a frame, with checks of what programs write in other units


def _camera_of(
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
