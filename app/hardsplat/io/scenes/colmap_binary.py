"""COLMAP's binary files. Format: https://colmap.github.io/format.html, little endian.

Key points of images, tracks and errors of points are skipped on reading and written empty:
training does not use them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints
from hardsplat.io.scenes.values import file_bytes

_MODEL_OF_ID = {row[0]: name for name, row in CAMERA_MODELS.items()}
_COUNT = struct.Struct("<Q")
_CAMERA = struct.Struct("<IiQQ")  # id, model, width, height; parameters follow
_POSE = struct.Struct("<I4d3dI")  # id, qvec, tvec, camera_id; name, NUL, key points follow
_KEY_POINT = 24  # bytes: x, y, point id
_POINT = np.dtype(
    [("id", "<u8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("track", "<u8")]
)
_TRACK_ITEM = 8  # bytes: image id, key point index
_LONGEST_NAME = 4096  # bytes, PATH_MAX of Linux


class _Cursor:
    """Walks over one binary file and notices when the file ends too early or too late."""

    def __init__(self, path):
        self.path, self.data, self.at = path, file_bytes(path), 0

    def take(self, layout: struct.Struct) -> tuple:
        start = self.at
        self.skip(layout.size)
        return layout.unpack_from(self.data, start)

    def skip(self, size: int):
        self.at += size
        if self.at > len(self.data):
            self.truncated()

    def count(self, what: str, smallest: int) -> int:
        """The number of records that opens each file; `smallest` bytes is the least a record takes,
        so nothing absurd is looped over."""
        (count,) = self.take(_COUNT)
        if count * smallest > len(self.data) - self.at:
            self.refuse(f"announces {count} {what}, too many for its {len(self.data)} bytes; it")
        return count

    def name(self) -> str:
        end = self.data.find(b"\0", self.at, self.at + _LONGEST_NAME + 1)
        if end < 0:
            self.refuse(f"the image name at byte {self.at} does not end; the file")
        raw, start, self.at = self.data[self.at : end], self.at, end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            what = f"the image name at byte {start} is not UTF-8"
            advice = "the file is damaged, or rename the image"
            raise UserError(f"{self.path}: {what}; {advice}") from error

    def end(self):
        if left := len(self.data) - self.at:
            raise UserError(f"{self.path}: {left} bytes follow the last record; it is damaged")

    def truncated(self):
        what = f"truncated, its {len(self.data)} bytes end inside a record"
        raise UserError(f"{self.path}: {what}; copy it again or export the model again")

    def refuse(self, what: str):
        raise UserError(f"{self.path}: {what} is truncated or damaged")


def read_cameras(path: Path) -> Iterator[ColmapCamera]:
    file = _Cursor(path)
    for _ in range(file.count("cameras", _CAMERA.size)):
        id, model_id, width, height = file.take(_CAMERA)
        if model_id not in _MODEL_OF_ID:
            raise UserError(f"{path}: camera {id}: unknown camera model id {model_id}")
        model = _MODEL_OF_ID[model_id]
        params = np.array(file.take(struct.Struct(f"<{CAMERA_MODELS[model][2]}d")))
        yield ColmapCamera(id, model, width, height, params)
    file.end()


def read_images(path: Path) -> Iterator[ColmapImage]:
    file = _Cursor(path)
    for _ in range(file.count("images", _POSE.size + 1 + _COUNT.size)):
        id, *pose, camera_id = file.take(_POSE)
        name = file.name()
        file.skip(_KEY_POINT * file.take(_COUNT)[0])
        yield ColmapImage(id, name, camera_id, np.array(pose[:4]), np.array(pose[4:]))
    file.end()


def count_images(path: Path) -> int:
    """The number in the file's head."""
    return _Cursor(path).count("images", _POSE.size + 1 + _COUNT.size)


def read_points(path: Path) -> ColmapPoints:
    rows, _ = _points(_Cursor(path))
    return ColmapPoints(rows["xyz"].copy(), rows["rgb"].copy())


def _points(file: _Cursor) -> tuple[np.ndarray, np.ndarray]:
    """(N,) records of all points, and the byte that each begins at."""
    count, data = file.count("points", _POINT.itemsize), file.data
    starts = np.empty(count, np.int64)
    at = file.at
    length_of = struct.Struct(f"<{_POINT.itemsize - 8}xQ").unpack_from
    try:
        for i in range(count):  # a hundred thousand points and more, so as little as can be
            starts[i] = at
            at += _POINT.itemsize + _TRACK_ITEM * length_of(data, at)[0]
    except (struct.error, OverflowError):  # a track that is longer than the file
        file.truncated()
    file.skip(at - file.at)
    file.end()
    rows = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(_POINT.itemsize)]
    return rows.view(_POINT)[:, 0], starts


def read_tracks(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(indices into read_points, ids of images) of every observation of a point."""
    file = _Cursor(path)
    rows, starts = _points(file)
    lengths = rows["track"].astype(np.int64)
    point = np.repeat(np.arange(len(rows)), lengths)
    first = np.cumsum(lengths) - lengths  # observations before those of each point
    at = (starts + _POINT.itemsize - _TRACK_ITEM * first)[point]
    at += _TRACK_ITEM * np.arange(len(point))
    ids = np.frombuffer(file.data, np.uint8)[at[:, None] + np.arange(4)]
    return point, ids.view("<u4")[:, 0].astype(np.int64)


def write(folder: Path, cameras, images, points: ColmapPoints) -> None:
    out = bytearray(_COUNT.pack(len(cameras)))
    for c in cameras:
        out += _CAMERA.pack(c.id, CAMERA_MODELS[c.model][0], c.width, c.height)
        out += np.asarray(c.params, "<f8").tobytes()
    (folder / "cameras.bin").write_bytes(out)

    out = bytearray(_COUNT.pack(len(images)))
    for i in images:
        out += _POSE.pack(i.id, *i.qvec, *i.tvec, i.camera_id)
        out += i.name.encode() + b"\0" + _COUNT.pack(0)
    (folder / "images.bin").write_bytes(out)

    records = np.zeros(len(points.xyz), _POINT)
    records["id"] = np.arange(1, len(records) + 1)
    records["xyz"], records["rgb"] = points.xyz, points.rgb
    (folder / "points3D.bin").write_bytes(_COUNT.pack(len(records)) + records.tobytes())
