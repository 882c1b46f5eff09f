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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import THREADS
from hardsplat.io.formats import base
from hardsplat.io.formats.base import COEFFICIENTS, Lost, SplatStream, archive_in, reading
from hardsplat.io.formats.clusters import Palette, scalar_codebook, scalar_labels
from hardsplat.model.gaussians import Gaussians

CHANNELS = {"means_l": 3, "means_u": 3, "scales": 3, "quats": 4, "sh0": 4, "shN_labels": 2}
_PIXELS = sum(CHANNELS.values())  # bytes of a splat once the images are unpacked
META = "meta.json"
COLUMNS = 64  # palette entries in a row of pixels
MOST_ENTRIES = 1 << 16
_LONGEST_META = 1 << 20  # bytes; ours take 12 kB
_MANY = 1 << 17  # splats from which finer codebooks are a small part of the file
# of codebooks, which could have 256: fewer lose little compared with what the palette does, and the
# images compress better
_LEVELS_OF_FEW = {"scales": 128, "sh0": 128, "shN": 16}
_LEVELS_OF_MANY = {"scales": 256, "sh0": 256, "shN": 64}
_COARSE = "are smaller than the step of positions: .ply and .glb keep them"
_FAR_SIZE = 0.2  # of logarithms
_SIZES = "became a fifth larger or smaller, because sizes differ much: .ply and .glb keep them"
_BOOK = 256  # numbers in a codebook, where programs expect so many; unused ones repeat the last
_SAMPLE = 1 << 19  # splats that codebooks are learned from


def read(path: Path) -> SplatStream:
    """path: a zip, or the meta.json of a folder. Raises UserError for other versions, images that
    are missing or of another size than the number of splats asks for, and codebooks of other
    lengths."""
    with reading(path), _members_in(path) as members:
        meta = _Meta(path, members)
        base.check_count(path, meta.count)
        base.check_expansion(path, meta.count * _PIXELS, size(path))
    return SplatStream(meta.count, meta.degree, lambda: _pieces(path, meta), meta.antialiased)


@dataclass(frozen=True)
class _Members:
    """The files of a SOG: those of a zip, or of the folder of a meta.json, none outside of it, and
    no links."""

    folder: Path
    archive: zipfile.ZipFile | None

    def size(self, name: str) -> int | None:
        """Bytes of a file; None where there is none."""
        if self.archive:
            info = self.archive.NameToInfo.get(name)
            return info.file_size if info else None
        file = self.folder / name
        inside = Path(name).name == name and file.is_file() and not file.is_symlink()
        return file.stat().st_size if inside else None

    def read(self, name: str) -> bytes:
        return self.archive.read(name) if self.archive else (self.folder / name).read_bytes()


def size(path: Path) -> int:
    """Bytes of a zip, or of the images in a folder with a meta.json."""
    return folder_bytes(path.parent) if path.name == META else base.size_of(path)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.suffix == ".webp")


@contextmanager
def _members_in(path: Path) -> Iterator[_Members]:
    if path.name == META:
        yield _Members(path.parent, None)
    else:
        with archive_in(path, "a bundled SOG file, which is a zip") as archive:
            yield _Members(path.parent, archive)


class _Meta:
    """What meta.json says, checked."""

    def __init__(self, path: Path, members: _Members):
        self._path, self._members = path, members
        if (length := members.size(META)) is None or length > _LONGEST_META:
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
        return isinstance(name, str) and self._members.size(name) is not None


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


def write(path: Path, splats: SplatStream) -> Lost:
    """Writes a zip of what `encoded` makes."""
    lost = Lost()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in encoded(splats, lost=lost):
            kind = zipfile.ZIP_DEFLATED if name == META else zipfile.ZIP_STORED
            archive.writestr(name, data, kind)
    return lost


def write_folder(folder: Path, splats: SplatStream, threads: int = THREADS) -> int:
    """Writes what `encoded` makes, finely, into a new folder; returns its bytes. meta.json comes
    last."""
    folder.mkdir()
    files = encoded(splats, threads, fine=True)
    return sum((folder / name).write_bytes(data) for name, data in files)


def encoded(
    splats: SplatStream, threads: int = THREADS, fine: bool = False, lost: Lost | None = None
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of files. Positions to 1/65535 of the scene's extent in ln(1 + |x|);
    scales and colours by codebooks of 256, SH bands by a palette. Small only in Morton order.

    Where it is known from which directions splats are seen, the palette is for those that are seen
    most, and what it changes in the mean over these directions is made up for by the colour of
    degree 0. fine: of few splats, more bytes and a quarter of the loss, see docs/results/levels.md.
    lost: counts what does not fit.
    """
    lost = lost or Lost()
    low, high, sample, sampled = _surveyed(splats)
    levels = _LEVELS_OF_FEW if splats.count < _MANY and not fine else _LEVELS_OF_MANY
    scales = scalar_codebook(base.finite_log_scales(sample), levels["scales"])
    sh0 = scalar_codebook(sample.sh[:, 0], levels["sh0"])
    bands = sample.sh[:, 1:].reshape(len(sample), -1)
    palette = None
    if splats.sh_degree:
        weights = None if splats.seen is None else np.sqrt(np.maximum(splats.seen[sampled, 0], 0))
        size = 3 * splats.count // 4 + 64 if fine else max(64, splats.count // 2)
        size = min(MOST_ENTRIES, size)  # as many as 16 bits can name
        palette = Palette(bands, size, weights, threads=threads, turns=3 if fine else 8)
        book = scalar_codebook(palette.entries, levels["shN"])
        codes = scalar_labels(palette.entries, book)
        entries = book[codes].reshape(len(codes), -1, 3)

    side = 4 * math.ceil(math.sqrt(splats.count) / 4)
    height = 4 * math.ceil(splats.count / side / 4)
    planes = [name for name in CHANNELS if palette or name != "shN_labels"]
    images = {n: np.zeros((height * side, CHANNELS[n]), np.uint8) for n in planes}
    extent = np.where(high > low, high - low, 1)
    for span, g in base.placed(splats.pieces()):
        colors = g.sh[:, 0]
        if palette:
            labels = palette.labels(g.sh[:, 1:].reshape(len(g), -1))
            images["shN_labels"][span] = np.stack([labels & 255, labels >> 8], axis=1)
            if splats.seen is not None:
                colors = colors + base.in_the_mean(splats.seen[span], g.sh[:, 1:] - entries[labels])
        steps = np.rint((_logs(g.means) - low) / extent * 65535).astype(np.uint16)
        step = ((1 + np.abs(g.means)) * extent / 65535).max(axis=1)
        lost.note(base.sizes(g) < step, _COARSE, Lost.SOME)
        images["means_l"][span], images["means_u"][span] = steps & 255, steps >> 8
        logs = base.finite_log_scales(g)
        images["scales"][span] = labels = scalar_labels(logs, scales)
        lost.note(np.abs(scales[labels] - logs).min(axis=1) > _FAR_SIZE, _SIZES)
        which, others = base.smallest_three(g.quats)
        images["quats"][span, :3] = np.rint((others * math.sqrt(2) * 0.5 + 0.5) * 255)
        images["quats"][span, 3] = 252 + which
        images["sh0"][span, :3] = scalar_labels(colors, sh0)
        images["sh0"][span, 3] = np.rint(g.opacities * 255)

    bounds = {"mins": low.tolist(), "maxs": high.tolist()}
    meta = {
        "version": 2,
        "asset": {"generator": "hardsplat"},
        "count": splats.count,
        "antialias": splats.antialiased,
        "means": bounds | {"files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": _listed(scales), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": _listed(sh0), "files": ["sh0.webp"]},
    }
    for name in list(images):
        yield f"{name}.webp", _webp(images.pop(name).reshape(height, side, -1))
    if palette:
        yield "shN_centroids.webp", _webp(_palette_image(codes, splats.sh_degree))
        own = {"count": len(palette.entries), "bands": splats.sh_degree}
        files = ["shN_centroids.webp", "shN_labels.webp"]
        meta["shN"] = own | {"codebook": _listed(book), "files": files}
    yield META, json.dumps(meta, separators=(",", ":")).encode()


def _listed(book: np.ndarray) -> list[float]:
    """All entries, with no more digits than float32 has."""
    return [float(f"{x:.8g}") for x in np.pad(book, (0, _BOOK - len(book)), "edge").tolist()]


def _surveyed(splats: SplatStream) -> tuple[np.ndarray, np.ndarray, Gaussians, np.ndarray]:
    """Bounds of the logarithms of positions, and a random sample of the splats, with the largest
    and the most colourful of each piece; which these are."""
    rng, share = np.random.default_rng(0), min(1, _SAMPLE / splats.count)
    low, high, sample, sampled = np.full(3, np.inf), np.full(3, -np.inf), [], []
    for g in splats.pieces():
        logs = _logs(g.means)
        low, high = np.minimum(low, logs.min(axis=0)), np.maximum(high, logs.max(axis=0))
        chosen = rng.random(len(g)) < share
        ends = g.sh[:, 0].argmin(axis=0), g.sh[:, 0].argmax(axis=0)
        chosen[np.concatenate([g.scales.argmax(axis=0), *ends])] = True
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
    out = np.zeros((-(-len(labels) // COLUMNS) * COLUMNS, each, 3), np.uint8)
    out[: len(labels)] = labels.reshape(-1, each, 3)
    return out.reshape(-1, COLUMNS * each, 3)


def _webp(pixels: np.ndarray) -> bytes:
    from PIL import Image

    if pixels.shape[2] == 2:
        pixels = np.pad(pixels, ((0, 0), (0, 0), (0, 1)))
    out, image = io.BytesIO(), Image.fromarray(np.ascontiguousarray(pixels))
    # more effort makes these images no smaller, see docs/results/levels.md
    image.save(out, "WEBP", lossless=True, quality=50, method=2, exact=True)
    return out.getvalue()
