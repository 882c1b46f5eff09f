"""COLMAP's text files. Format: https://colmap.github.io/format.html.

Key points of images and tracks of points are skipped on reading and written empty: training does
not use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap_model import (
    CAMERA_MODELS,
    ColmapCamera,
    ColmapImage,
    ColmapPoints,
    file_bytes,
)


def _lines(path):
    """(number, stripped line), comments left out. Empty lines stay: the key points of an image may
    be one."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text at byte {error.start}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("#"):
            yield number, line.strip()


def _id(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**32:
        raise ValueError("an id is a 32-bit number")
    return value


def _floats(texts) -> np.ndarray:
    return np.array([float(t) for t in texts])


def _wrong(path, number, wanted) -> UserError:
    return UserError(f"{path}:{number}: expected `{wanted}`")


def read_cameras(path: Path) -> Iterator[ColmapCamera]:
    for number, line in _lines(path):
        if not line:
            continue
        try:
            id, model, width, height, *params = line.split()
            camera = ColmapCamera(_id(id), model, int(width), int(height), _floats(params))
        except ValueError as error:
            raise _wrong(path, number, "CAMERA_ID MODEL WIDTH HEIGHT PARAMS...") from error
        if model not in CAMERA_MODELS:
            raise UserError(f"{path}:{number}: unknown camera model {model[:80]}")
        yield camera


def read_images(path: Path) -> Iterator[ColmapImage]:
    lines = _lines(path)
    for number, line in lines:
        if not line:
            continue
        try:
            id, *pose, camera_id, name = line.split(maxsplit=9)
            image = ColmapImage(_id(id), name, _id(camera_id), _floats(pose[:4]), _floats(pose[4:]))
            if len(pose) != 7:
                raise ValueError("too few fields")
        except ValueError as error:
            raise _wrong(path, number, "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME") from error
        number, key_points = next(lines, (number + 1, ""))
        if (
            len(key_points.split()) % 3
        ):  # most likely the next image, in a file without key point lines
            raise _wrong(path, number, "X Y POINT3D_ID ...` or an empty line after each image`")
        yield image


def read_points(path: Path) -> ColmapPoints:
    xyz, rgb, error = [], [], []
    for number, line in _lines(path):
        if not line:
            continue
        try:
            _, x, y, z, r, g, b, e = line.split(maxsplit=8)[:8]
            xyz.append((float(x), float(y), float(z)))
            rgb.append(bytes((int(r), int(g), int(b))))  # bytes() refuses what is not in 0..255
            error.append(float(e))
        except ValueError as wrong:
            raise _wrong(path, number, "POINT3D_ID X Y Z R G B ERROR TRACK...") from wrong
    colors = np.frombuffer(b"".join(rgb), np.uint8).reshape(-1, 3).copy()
    return ColmapPoints(np.array(xyz).reshape(-1, 3), colors, np.array(error))


def read_tracks(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(indices into read_points, ids of images) of every observation of a point."""
    indices: list[int] = []
    ids: list[int] = []
    for index, (number, line) in enumerate((number, line) for number, line in _lines(path) if line):
        try:
            images = [int(word) for word in line.split()[8::2]]
        except ValueError as wrong:
            raise _wrong(path, number, "POINT3D_ID X Y Z R G B ERROR TRACK...") from wrong
        indices += [index] * len(images)
        ids += images
    return np.array(indices, np.int64), np.array(ids, np.int64)


def write(folder: Path, cameras, images, points: ColmapPoints) -> None:
    for i in images:
        if i.name != i.name.strip():
            raise UserError(
                f"image {i.name!r}: a text model cannot hold a name that starts or ends "
                "with a blank; write it as binary"
            )
    _write(
        folder / "cameras.txt",
        "CAMERA_ID MODEL WIDTH HEIGHT PARAMS...",
        ([str(c.id), c.model, str(c.width), str(c.height), *_exact(c.params)] for c in cameras),
    )
    _write(
        folder / "images.txt",
        "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then X Y POINT3D_ID ...",
        (
            [str(i.id), *_exact(i.qvec), *_exact(i.tvec), str(i.camera_id), i.name + "\n"]
            for i in images
        ),
    )
    numbers = zip(points.xyz, points.rgb.tolist(), points.error[:, None])
    _write(
        folder / "points3D.txt",
        "POINT3D_ID X Y Z R G B ERROR TRACK...",
        (
            [str(n), *_exact(xyz), *map(str, rgb), *_exact(error)]
            for n, (xyz, rgb, error) in enumerate(numbers, 1)
        ),
    )


def _write(path, header, records):
    lines = [f"# {header}", *(" ".join(words) for words in records), ""]
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")


def _exact(numbers) -> list[str]:
    """repr() is the shortest text that reads back as the same float64."""
    return [repr(v) for v in np.asarray(numbers, np.float64).tolist()]
