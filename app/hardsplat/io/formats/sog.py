"""Splats as SOG version 2 of PlayCanvas: a zip of lossless WebP images, one pixel a splat, and
meta.json.

Layout of https://developer.playcanvas.com/user-manual/gaussian-splatting/formats/sog. Axes are
those of the PLY.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats.base import (
    COEFFICIENTS,
    SplatStream,
    check_archive,
    check_count,
    check_expansion,
    finite_log_scales,
    from_smallest_three,
    reading,
    size_of,
    smallest_three,
    spans,
)
from hardsplat.io.formats.clusters import Palette, scalar_codebook, scalar_labels
from hardsplat.model.gaussians import Gaussians

_CHANNELS = {"means_l": 3, "means_u": 3, "scales": 3, "quats": 4, "sh0": 4, "shN_labels": 2}
_PIXELS = sum(_CHANNELS.values())  # bytes of a splat once the images are unpacked
_COLUMNS = 64  # palette entries in a row of pixels
_MOST_ENTRIES = 1 << 16
_MANY = 1 << 19  # splats from which a palette of 65 536 entries is a small part of the file
_LEVELS_OF_FEW = {
    "scales": 128,
    "sh0": 128,
    "shN": 16,
    # of codebooks, which could have 256: fewer lose little beside what the palette does, and the
    # images compress better
}
_LEVELS_OF_MANY = {"scales": 256, "sh0": 256, "shN": 64}
_BOOK = 256  # numbers in a codebook, where programs expect so many; unused ones repeat the last
_SAMPLE = 1 << 19  # splats that codebooks are learned from
_LONGEST_META = 1 << 20  # bytes; ours take 12 kB


# -- reading


def read(path: Path) -> SplatStream:
    """Raises UserError for other versions, images that are missing or of another size than the
    number of splats asks for, and codebooks of other lengths."""
    with reading(path):
        if path.is_file() and not zipfile.is_zipfile(path):
            raise UserError(f"{path}: not a bundled SOG file, which is a zip, or cut short")
        with zipfile.ZipFile(path) as archive:
            check_archive(path, archive)
            meta = _Meta(path, archive)
        check_count(path, meta.count)
        check_expansion(path, meta.count * _PIXELS, size_of(path))
    return SplatStream(meta.count, meta.degree, lambda: _pieces(path, meta), meta.antialiased)


class _Meta:
    """What meta.json says, checked."""

    def __init__(self, path: Path, archive: zipfile.ZipFile):
        if (
            "meta.json" not in archive.namelist()
            or archive.getinfo("meta.json").file_size > _LONGEST_META
        ):
            raise UserError(
                f"{path}: no meta.json of at most {_LONGEST_META} bytes in it, so it is "
                "no bundled SOG file"
            )
        meta = json.loads(archive.read("meta.json"))
        version = meta.get("version", 1)
        if version != 2:
            raise UserError(f"{path}: SOG version {version!r}; hardsplat reads version 2")
        self._path, self._names = path, set(archive.namelist())
        self.count = self._whole("count", meta["count"], 1 << 40)
        self.antialiased = bool(meta.get("antialias", False))
        self.mins, self.maxs = (
            self._numbers(f"means.{end}", meta["means"][end], 3) for end in ("mins", "maxs")
        )
        self.scales = self._numbers("scales.codebook", meta["scales"]["codebook"])
        self.sh0 = self._numbers("sh0.codebook", meta["sh0"]["codebook"])
        self.files = dict(zip(("means_l", "means_u"), self._files(meta["means"], 2)))
        self.files |= {name: self._files(meta[name], 1)[0] for name in ("scales", "quats", "sh0")}
        self.degree, self.entries = 0, 0
        if rest := meta.get("shN"):
            self.degree = self._whole("shN.bands", rest["bands"], 3)
            self.entries = self._whole("shN.count", rest["count"], _MOST_ENTRIES)
            self.shN = self._numbers("shN.codebook", rest["codebook"])
            self.files |= dict(zip(("shN_centroids", "shN_labels"), self._files(rest, 2)))

    def _whole(self, name: str, value: object, most: int) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise UserError(
                f"{self._path}: meta.json: {name} is {str(value)[:40]}, expected a whole "
                f"number of 0 to {most}"
            )
        return value

    def _numbers(self, name: str, values: object, length: int | None = None) -> np.ndarray:
        array = np.array(values, np.float64)
        if (
            array.ndim != 1
            or not (len(array) == length if length else 1 <= len(array) <= 256)
            or not np.isfinite(array).all()
        ):
            raise UserError(
                f"{self._path}: meta.json: {name} is not {length or '1 to 256'} finite numbers"
            )
        return array

    def _files(self, entry: dict, number: int) -> list[str]:
        names = entry["files"]
        if (
            not isinstance(names, list)
            or len(names) != number
            or not all(name in self._names for name in names)
        ):
            raise UserError(
                f"{self._path}: meta.json names images {str(names)[:80]}, which are not in it"
            )
        return names


def _pieces(path: Path, meta: _Meta) -> Iterator[Gaussians]:
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            images = {
                name: _image(path, archive, meta.files[name], channels, meta.count)
                for name, channels in _CHANNELS.items()
                if name in meta.files
            }
            palette = _palette(path, archive, meta) if meta.degree else None
        for at, n in spans(meta.count):
            pixels = {name: image[at : at + n] for name, image in images.items()}
            steps = pixels["means_l"].astype(np.uint16) | pixels["means_u"].astype(np.uint16) << 8
            with np.errstate(over="ignore", invalid="ignore"):  # such splats are counted
                logs = meta.mins + steps / 65535 * (meta.maxs - meta.mins)
                means = np.sign(logs) * np.expm1(np.abs(logs))
                scales = np.exp(_looked_up(path, meta.scales, pixels["scales"]))
            tag = pixels["quats"][:, 3]
            quats = from_smallest_three(
                np.maximum(tag, 252) & 3, (pixels["quats"][:, :3] / 255 * 2 - 1) * math.sqrt(0.5)
            )
            quats[tag < 252] = 0  # no rotation
            sh = _looked_up(path, meta.sh0, pixels["sh0"][:, :3])[:, None]
            if palette is not None:
                labels = pixels["shN_labels"].astype(np.uint16)
                sh = np.concatenate(
                    [sh, _looked_up(path, palette, labels[:, 0] | labels[:, 1] << 8)], axis=1
                )
            yield Gaussians(means, quats, scales, pixels["sh0"][:, 3] / 255, sh, check=False)


def _looked_up(path: Path, book: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if len(labels) and labels.max() >= len(book):
        raise UserError(
            f"{path}: entry {labels.max()} of a codebook with {len(book)} is asked for; damaged"
        )
    return book[labels]


def _image(
    path: Path, archive: zipfile.ZipFile, name: str, channels: int, count: int
) -> np.ndarray:
    """(count, channels) uint8."""
    pixels = _decoded(path, archive, name, count)
    return pixels.reshape(-1, 4)[:count, :channels].copy()


def _decoded(path: Path, archive: zipfile.ZipFile, name: str, count: int) -> np.ndarray:
    """(height, width, 4) uint8 of an image with at least `count` pixels, and not many more."""
    from PIL import Image

    with Image.open(io.BytesIO(archive.read(name)), formats=("WEBP", "PNG")) as image:
        width, height = image.size
        if not count <= width * height <= 2 * count + 4096:
            raise UserError(
                f"{path}: image {name} has {width}x{height} pixels for {count} splats; damaged"
            )
        return np.asarray(image.convert("RGBA"))


def _palette(path: Path, archive: zipfile.ZipFile, meta: _Meta) -> np.ndarray:
    """(entries, K - 1, 3) SH coefficients."""
    each = COEFFICIENTS[meta.degree] - 1
    image = _decoded(
        path, archive, meta.files["shN_centroids"], -(-meta.entries // _COLUMNS) * _COLUMNS * each
    )
    if image.shape[1] != _COLUMNS * each:
        raise UserError(
            f"{path}: image {meta.files['shN_centroids']} is {image.shape[1]} pixels "
            f"wide, expected {_COLUMNS * each}"
        )
    return _looked_up(path, meta.shN, image[..., :3].reshape(-1, each, 3)[: meta.entries])


# -- writing


def write(path: Path, splats: SplatStream) -> None:
    """Positions to 1/65535 of the scene's extent in ln(1 + |x|); scales and colours by codebooks of
    256, SH bands by a palette. Small only in Morton order.

    Where it is known from which directions splats are seen, the palette is for those that are seen
    most, and what it changes in the mean over these directions is made up for by the colour of
    degree 0.
    """
    low, high, sample, sampled = _surveyed(splats)
    levels = _LEVELS_OF_FEW if splats.count < _MANY else _LEVELS_OF_MANY
    scales = scalar_codebook(finite_log_scales(sample), levels["scales"])
    sh0 = scalar_codebook(sample.sh[:, 0], levels["sh0"])
    bands = sample.sh[:, 1:].reshape(len(sample), -1)
    palette = None
    if splats.sh_degree:
        weights = None if splats.seen is None else np.sqrt(np.maximum(splats.seen[sampled, 0], 0))
        palette = Palette(bands, palette_size(splats.count), weights)
        book = scalar_codebook(palette.entries, levels["shN"])
        codes = scalar_labels(palette.entries, book)
        entries = book[codes].reshape(len(codes), -1, 3)

    side = 4 * math.ceil(math.sqrt(splats.count) / 4)
    height = 4 * math.ceil(splats.count / side / 4)
    images = {
        name: np.zeros((height * side, channels), np.uint8)
        for name, channels in _CHANNELS.items()
        if palette or name != "shN_labels"
    }
    at = 0
    for g in splats.pieces():
        span = slice(at, at + len(g))
        at += len(g)
        colors = g.sh[:, 0]
        if palette:
            labels = palette.labels(g.sh[:, 1:].reshape(len(g), -1))
            images["shN_labels"][span, 0], images["shN_labels"][span, 1] = labels & 255, labels >> 8
            if splats.seen is not None:
                colors = colors + _in_the_mean(splats.seen[span], g.sh[:, 1:] - entries[labels])
        steps = np.rint(
            (_logs(g.means) - low) / np.where(high > low, high - low, 1) * 65535
        ).astype(np.uint16)
        images["means_l"][span], images["means_u"][span] = steps & 255, steps >> 8
        images["scales"][span] = scalar_labels(finite_log_scales(g), scales)
        which, others = smallest_three(g.quats)
        images["quats"][span, :3] = np.rint((others * math.sqrt(2) * 0.5 + 0.5) * 255)
        images["quats"][span, 3] = 252 + which
        images["sh0"][span, :3] = scalar_labels(colors, sh0)
        images["sh0"][span, 3] = np.rint(g.opacities * 255)

    meta = {
        "version": 2,
        "asset": {"generator": "hardsplat"},
        "count": splats.count,
        "antialias": splats.antialiased,
        "means": {
            "mins": low.tolist(),
            "maxs": high.tolist(),
            "files": ["means_l.webp", "means_u.webp"],
        },
        "scales": {"codebook": _listed(scales), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": _listed(sh0), "files": ["sh0.webp"]},
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name in list(images):
            _add(archive, name, images.pop(name).reshape(height, side, -1))
        if palette:
            _add(archive, "shN_centroids", _palette_image(codes, splats.sh_degree))
            files = ["shN_centroids.webp", "shN_labels.webp"]
            meta["shN"] = {
                "count": len(palette.entries),
                "bands": splats.sh_degree,
                "codebook": _listed(book),
                "files": files,
            }
        archive.writestr("meta.json", json.dumps(meta, separators=(",", ":")), zipfile.ZIP_DEFLATED)


def _in_the_mean(seen: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """(N, 3) the coefficient of degree 0 that equals coefficients (N, K - 1, 3) of higher degrees
    in the mean over the directions that splats are seen from."""
    shares = seen[:, 1:] / np.where(seen[:, :1] > 0, seen[:, :1], np.inf)
    return np.einsum("nk,nkc->nc", shares, bands)


def _listed(book: np.ndarray) -> list[float]:
    """All entries, with no more digits than float32 has."""
    return [float(f"{x:.8g}") for x in np.pad(book, (0, _BOOK - len(book)), "edge").tolist()]


def palette_size(count: int) -> int:
    """Entries for that many splats: one for 2, as many as 16 bits can name."""
    return min(_MOST_ENTRIES, max(64, count // 2))


def _surveyed(splats: SplatStream) -> tuple[np.ndarray, np.ndarray, Gaussians, np.ndarray]:
    """Bounds of the logarithms of positions, and a random sample of the splats, with the largest
    and the most colourful of each piece; which these are."""
    rng, share = np.random.default_rng(0), min(1, _SAMPLE / splats.count)
    low, high, sample, sampled = np.full(3, np.inf), np.full(3, -np.inf), [], []
    for g in splats.pieces():
        logs = _logs(g.means)
        low, high = np.minimum(low, logs.min(axis=0)), np.maximum(high, logs.max(axis=0))
        chosen = rng.random(len(g)) < share
        chosen[
            [*g.scales.argmax(axis=0), *g.sh[:, 0].argmin(axis=0), *g.sh[:, 0].argmax(axis=0)]
        ] = True
        sample.append(g[chosen])
        sampled.append(chosen)
    return low, high, Gaussians.concatenate(sample), np.flatnonzero(np.concatenate(sampled))


def _logs(means: np.ndarray) -> np.ndarray:
    m = means.astype(np.float64)
    return np.sign(m) * np.log1p(np.abs(m))


def _palette_image(labels: np.ndarray, degree: int) -> np.ndarray:
    """(rows, 64 * each, 3) from (entries, 3 * each), where `each` coefficients belong to an
    entry."""
    each = COEFFICIENTS[degree] - 1
    out = np.zeros((-(-len(labels) // _COLUMNS) * _COLUMNS, each, 3), np.uint8)
    out[: len(labels)] = labels.reshape(-1, each, 3)
    return out.reshape(-1, _COLUMNS * each, 3)


def _add(archive: zipfile.ZipFile, name: str, pixels: np.ndarray) -> None:
    from PIL import Image

    if pixels.shape[2] == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[..., :1])], axis=2)
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(
        out, "WEBP", lossless=True, quality=75, method=4, exact=True
    )
    archive.writestr(f"{name}.webp", out.getbuffer())
