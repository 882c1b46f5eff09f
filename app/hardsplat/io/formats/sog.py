"""Splats as SOG version 2 of PlayCanvas: lossless WebP images, one pixel a splat, and meta.json, in
a zip or in a folder.

Layout of https://developer.playcanvas.com/user-manual/gaussian-splatting/formats/sog. Axes are
those of the PLY.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import COEFFICIENTS, SplatStream, archive_in, reading
from hardsplat.model.gaussians import Gaussians

CHANNELS = {"means_l": 3, "means_u": 3, "scales": 3, "quats": 4, "sh0": 4, "shN_labels": 2}
_PIXELS = sum(CHANNELS.values())  # bytes of a splat once the images are unpacked
META = "meta.json"
COLUMNS = 64  # palette entries in a row of pixels
MOST_ENTRIES = 1 << 16
_LONGEST_META = 1 << 20  # bytes; ours take 12 kB


def read(path: Path) -> SplatStream:
    """path: a zip, or the meta.json of a folder. Raises UserError for other versions, images that
    are missing or of another size than the number of splats asks for, and codebooks of other
    lengths."""
    with reading(path), _members_in(path) as members:
        meta = _Meta(path, members)
        base.check_count(path, meta.count)
        base.check_expansion(path, meta.count * _PIXELS, members.nbytes())
    return SplatStream(meta.count, meta.degree, lambda: _pieces(path, meta), meta.antialiased)


class _Members(Protocol):
    """The files of a SOG, by name. read: raises KeyError or OSError where there is none."""

    def has(self, name: str) -> bool: ...
    def size(self, name: str) -> int: ...
    def nbytes(self) -> int: ...
    def read(self, name: str) -> bytes: ...


class _Zipped:
    def __init__(self, path: Path, archive: zipfile.ZipFile):
        self._path, self._archive, self._names = path, archive, set(archive.namelist())
        self.read = archive.read

    def has(self, name: str) -> bool:
        return name in self._names

    def size(self, name: str) -> int:
        return self._archive.getinfo(name).file_size

    def nbytes(self) -> int:
        return base.size_of(self._path)


class _Beside:
    """Files of the folder of a meta.json, none outside of it, and no links."""

    def __init__(self, path: Path):
        self._folder = path.parent

    def has(self, name: str) -> bool:
        file = self._folder / name
        return Path(name).name == name and file.is_file() and not file.is_symlink()

    def size(self, name: str) -> int:
        return (self._folder / name).stat().st_size

    def nbytes(self) -> int:
        return folder_bytes(self._folder)

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


def size(path: Path) -> int:
    """Bytes of a zip, or of the images in a folder with a meta.json."""
    return folder_bytes(path.parent) if path.name == META else base.size_of(path)


def folder_bytes(folder: Path) -> int:
    """Bytes of the images in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir() if file.suffix == ".webp")


@contextmanager
def _members_in(path: Path) -> Iterator[_Members]:
    if path.name == META:
        yield _Beside(path)
    else:
        with archive_in(path, "a bundled SOG file, which is a zip") as archive:
            yield _Zipped(path, archive)


class _Meta:
    """What meta.json says, checked."""

    def __init__(self, path: Path, members: _Members):
        self._path, self._members = path, members
        if not members.has(META) or members.size(META) > _LONGEST_META:
            what = f"no {META} of at most {_LONGEST_META} bytes in it"
            raise UserError(f"{path}: {what}, so it is no bundled SOG file")
        meta = json.loads(members.read(META))
        version = meta.get("version", 1)
        if version != 2:
            raise UserError(f"{path}: SOG version {version!r}; hardsplat reads version 2")
        self.count = self._whole("count", meta["count"], 1 << 40)
        self.antialiased = bool(meta.get("antialias", False))
        self.mins = self._numbers("means.mins", meta["means"]["mins"], 3)
        self.maxs = self._numbers("means.maxs", meta["means"]["maxs"], 3)
        self.scales = self._numbers("scales.codebook", meta["scales"]["codebook"])
        self.sh0 = self._numbers("sh0.codebook", meta["sh0"]["codebook"])
        self.files = dict(zip(("means_l", "means_u"), self._files(meta["means"], 2)))
        self.files |= {name: self._files(meta[name], 1)[0] for name in ("scales", "quats", "sh0")}
        self.degree, self.entries = 0, 0
        if rest := meta.get("shN"):
            self.degree = self._whole("shN.bands", rest["bands"], 3)
            self.entries = self._whole("shN.count", rest["count"], MOST_ENTRIES)
            self.shN = self._numbers("shN.codebook", rest["codebook"])
            self.files |= dict(zip(("shN_centroids", "shN_labels"), self._files(rest, 2)))

    def _whole(self, name: str, value: object, most: int) -> int:
        if type(value) is not int or not 0 <= value <= most:
            what = f"{name} is {str(value)[:40]}, expected a whole number of 0 to {most}"
            raise UserError(f"{self._path}: meta.json: {what}")
        return value

    def _numbers(self, name: str, values: object, length: int | None = None) -> np.ndarray:
        array = np.array(values, np.float64)
        fits = array.ndim == 1 and (len(array) == length if length else 1 <= len(array) <= 256)
        if not fits or not np.isfinite(array).all():
            what = f"{name} is not {length or '1 to 256'} finite numbers"
            raise UserError(f"{self._path}: meta.json: {what}")
        return array

    def _files(self, entry: dict, number: int) -> list[str]:
        names = entry["files"]
        several = isinstance(names, list) and len(names) == number
        if not several or not all(map(self._has, names)):
            what = f"names images {str(names)[:80]}, which are not in it"
            raise UserError(f"{self._path}: meta.json {what}")
        return names

    def _has(self, name: object) -> bool:
        return isinstance(name, str) and self._members.has(name)


def _pieces(path: Path, meta: _Meta) -> Iterator[Gaussians]:
    with reading(path):
        with _members_in(path) as members:
            images = {}  # (count, channels) uint8 each
            for name in (name for name in CHANNELS if name in meta.files):
                image = _decoded(path, members, meta.files[name], meta.count).reshape(-1, 4)
                images[name] = image[: meta.count, : CHANNELS[name]].copy()
            palette = _palette(path, members, meta) if meta.degree else None
        for at, n in base.spans(meta.count):
            pixels = {name: image[at : at + n] for name, image in images.items()}
            steps = pixels["means_l"].astype(np.uint16) | pixels["means_u"].astype(np.uint16) << 8
            with np.errstate(over="ignore", invalid="ignore"):  # such splats are counted
                logs = meta.mins + steps / 65535 * (meta.maxs - meta.mins)
                means = np.sign(logs) * np.expm1(np.abs(logs))
                scales = np.exp(_looked_up(path, meta.scales, pixels["scales"]))
            tag, others = pixels["quats"][:, 3], pixels["quats"][:, :3] / 255 * 2 - 1
            quats = base.from_smallest_three(np.maximum(tag, 252) & 3, others * math.sqrt(0.5))
            quats[tag < 252] = 0  # no rotation
            sh = _looked_up(path, meta.sh0, pixels["sh0"][:, :3])[:, None]
            if palette is not None:
                low, high = pixels["shN_labels"].astype(np.uint16).T
                sh = np.concatenate([sh, _looked_up(path, palette, low | high << 8)], axis=1)
            yield Gaussians(means, quats, scales, pixels["sh0"][:, 3] / 255, sh, check=False)


def _looked_up(path: Path, book: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if len(labels) and labels.max() >= len(book):
        what = f"entry {labels.max()} of a codebook with {len(book)} is asked for"
        raise UserError(f"{path}: {what}; damaged")
    return book[labels]


def _decoded(path: Path, members: _Members, name: str, count: int) -> np.ndarray:
    """(height, width, 4) uint8 of an image with at least `count` pixels, and not many more."""
    from PIL import Image

    with Image.open(io.BytesIO(members.read(name)), formats=("WEBP", "PNG")) as image:
        width, height = image.size
        if not count <= width * height <= 2 * count + 4096:
            what = f"image {name} has {width}x{height} pixels for {count:,} splats"
            raise UserError(f"{path}: {what}; damaged")
        return np.asarray(image.convert("RGBA"))


def _palette(path: Path, members: _Members, meta: _Meta) -> np.ndarray:
    """(entries, K - 1, 3) SH coefficients."""
    each, name = COEFFICIENTS[meta.degree] - 1, meta.files["shN_centroids"]
    wide = COLUMNS * each
    image = _decoded(path, members, name, -(-meta.entries // COLUMNS) * wide)
    if (found := image.shape[1]) != wide:
        raise UserError(f"{path}: image {name} is {found} pixels wide, expected {wide}")
    return _looked_up(path, meta.shN, image[..., :3].reshape(-1, each, 3)[: meta.entries])
