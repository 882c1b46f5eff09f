"""COLMAP's text files. Format: https://colmap.github.io/format.html.

Key points of images and tracks of points are skipped: training does not use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints
from hardsplat.io.scenes.values import file_bytes

T = TypeVar("T")
_CAMERA = "CAMERA_ID MODEL WIDTH HEIGHT PARAMS..."
_IMAGE = "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME"
_NUMBERS_FIRST = 12  # words of a line, of which an image's name begins at the tenth
_POINT = "POINT3D_ID X Y Z R G B ERROR TRACK..."


def _lines(path):
    """(number, stripped line), comments left out. Empty lines stay: the key points of an image may
    be one."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text at byte {error.start}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not (line := line.strip()).startswith("#"):
            yield number, line


def _id(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**32:
        raise ValueError("an id is a 32-bit number")
    return value


def _floats(texts) -> np.ndarray:
    return np.array([float(t) for t in texts])


def _records(lines, path, wanted: str, parse: Callable[[str], T]) -> Iterator[tuple[int, T]]:
    """(number, parse(line)) of every line that is not empty. UserError where it raises
    ValueError."""
    for number, line in lines:
        if line:
            try:
                record = parse(line)
            except ValueError as error:
                raise UserError(f"{path}:{number}: expected `{wanted}`") from error
            yield number, record


def read_cameras(path: Path) -> Iterator[ColmapCamera]:
    def parse(line: str) -> ColmapCamera:
        id, model, width, height, *params = line.split()
        return ColmapCamera(_id(id), model, int(width), int(height), _floats(params))

    for number, camera in _records(_lines(path), path, _CAMERA, parse):
        if camera.model not in CAMERA_MODELS:
            raise UserError(f"{path}:{number}: unknown camera model {camera.model[:80]}")
        yield camera


def read_images(path: Path) -> Iterator[ColmapImage]:
    def parse(line: str) -> ColmapImage:
        id, qw, qx, qy, qz, tx, ty, tz, camera_id, name = line.split(maxsplit=9)
        turn, shift = _floats((qw, qx, qy, qz)), _floats((tx, ty, tz))
        return ColmapImage(_id(id), name, _id(camera_id), turn, shift)

    for _, image in _records(_without_key_points(_lines(path)), path, _IMAGE, parse):
        yield image


def count_images(path: Path) -> int:
    return sum(bool(line) for _, line in _without_key_points(_lines(path)))


def _without_key_points(lines) -> Iterator[tuple[int, str]]:
    of_image = False  # the line before
    for number, line in lines:
        if of_image and _are_key_points(line):
            of_image = False
        else:
            of_image = bool(line)
            yield number, line


def _are_key_points(line: str) -> bool:
    """Whether a line after an image has its key points, X Y POINT3D_ID for each. Some programs
    leave these lines out, and the next image follows, whose name may have any number of words."""
    words = line.split()
    if len(words) % 3:
        return False
    try:
        _floats([*words[:_NUMBERS_FIRST], *words[-1:]])
    except ValueError:
        return False
    return True


def read_points(path: Path) -> ColmapPoints:
    def parse(line: str) -> tuple[list[float], bytes]:
        _, x, y, z, r, g, b, error = line.split(maxsplit=8)[:8]
        *place, _ = map(float, (x, y, z, error))
        return place, bytes((int(r), int(g), int(b)))  # bytes() refuses what is not in 0..255

    found = [record for _, record in _records(_lines(path), path, _POINT, parse)]
    places = np.array([place for place, _ in found]).reshape(-1, 3)
    colors = np.frombuffer(b"".join(color for _, color in found), np.uint8).reshape(-1, 3)
    return ColmapPoints(places, colors.copy())


def read_tracks(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(indices into read_points, ids of images) of every observation of a point."""
    parse = lambda line: [_id(word) for word in line.split()[8::2]]  # noqa: E731
    tracks = [ids for _, ids in _records(_lines(path), path, _POINT, parse)]
    lengths = np.array([len(ids) for ids in tracks], np.int64)
    ids = np.array([id for track in tracks for id in track], np.int64)
    return np.repeat(np.arange(len(tracks)), lengths), ids
