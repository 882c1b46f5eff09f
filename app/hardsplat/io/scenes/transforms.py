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

import os
from pathlib import Path, PurePosixPath

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats.ply import load_points
from hardsplat.io.media.images import image_size
from hardsplat.io.scenes.colmap import read_points
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import Posed, SceneSource, composed, has_control, located, slashed
from hardsplat.io.scenes.transforms_camera import camera_of
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
_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG", ".webp", ".heic", ".HEIC")
# clouds of points that programs leave beside, without naming them: Inria's for NeRF-synthetic, and
# nerfstudio's
_CLOUDS = ("points3d.ply", "points3D.ply", "sparse_pc.ply")


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
    return SceneSource(str(main), photographs, points, colors, held_out, notes)


class _Reader:
    """Turns frames into posed photographs; numbers cameras with the same intrinsics alike, so that
    their maps of distortion are shared."""

    def __init__(self, root: Path, data_factor: int):
        self.root, self.data_factor, self.masks = root, data_factor, Masks(root)
        self.ids: dict[tuple, int] = {}
        self.notes: set[str] = set()
        self.names: dict[str, str] = {}  # file_path as written -> name

    def photographs(self, file: Path, top: dict, frames: list) -> list[Posed]:
        out, seen = [], set()
        for number, frame in enumerate(frames, 1):
            where = f"{file}: frame {number}"
            if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str):
                raise UserError(f"{where}: has no file_path")
            where += f" ({frame['file_path'][:80]})"
            if has_control(frame["file_path"]):
                raise UserError(f"{where}: file_path has control characters; rename it")
            posed = self._photograph(where, top | frame)
            if posed.name in seen:
                raise UserError(f"{where}: two frames have this photograph")
            seen.add(posed.name)
            self.names[_key(frame["file_path"])] = posed.name
            out.append(posed)
        return out

    def _photograph(self, where: str, values: dict) -> Posed:
        name = self._file(where, values["file_path"])
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
        smaller = path.parent.with_name(f"{path.parent.name}_{self.data_factor}") / path.name
        if self.data_factor > 1 and path.parent != self.root and os.path.isfile(smaller):
            path, divisor = smaller, self.data_factor
        model, params, note = camera_of(where, values, width, height, unsized)
        if note:
            self.notes.add(note)
        number = self.ids.setdefault((model, width, height, *params), len(self.ids) + 1)
        lens = ColmapCamera(number, model, width, height, np.array(params))
        try:
            pinhole = Camera(_world_to_camera(where, values), intrinsics(lens), width, height)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
        return Posed(name, path, pinhole, lens, self._mask(where, values, name), divisor)

    def _mask(self, where: str, values: dict, name: str) -> Path | None:
        """mask_path, else the file in the folder of masks."""
        if (named := values.get("mask_path")) is not None:
            advice = "remove mask_path to train on the whole photograph"
            return _file_below(self.root, named, f"{where}: mask_path", advice)
        return self.masks.of(name)

    def _file(self, where: str, file_path: str) -> str:
        """The photograph's path below the scene, with the extension that file_path may lack; as it
        is where there is no such file."""
        name = None if file_path in ("", ".") else located(self.root, file_path)
        for suffix in _SUFFIXES:
            file = located(self.root, file_path + suffix)
            if file and os.path.isfile(self.root / file):
                return file
        if not name:
            advice = "move the photographs there and rename it"
            raise UserError(f"{where}: file_path leads out of {self.root}; {advice}")
        return name


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
    # The poses have been moved by this since COLMAP; its points have not.
    key = "applied_transform"
    moved = _matrix(str(file), top, key) if key in top else np.eye(4)[:3]
    return points.xyz @ moved[:, :3].T + moved[:, 3], points.rgb, []
