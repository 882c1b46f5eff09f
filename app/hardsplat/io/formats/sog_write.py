"""Writes splats as SOG version 2, see app/hardsplat/io/formats/sog.py."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardsplat.base.parallel import THREADS
from hardsplat.io.formats.base import (
    COEFFICIENTS,
    Lost,
    SplatStream,
    finite_log_scales,
    in_the_mean,
    sizes,
    smallest_three,
)
from hardsplat.io.formats.clusters import Palette, scalar_codebook, scalar_labels
from hardsplat.io.formats.sog import CHANNELS, COLUMNS, META, MOST_ENTRIES
from hardsplat.model.gaussians import Gaussians

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
    scales = scalar_codebook(finite_log_scales(sample), levels["scales"])
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
    at, extent = 0, np.where(high > low, high - low, 1)
    for g in splats.pieces():
        span = slice(at, at + len(g))
        at += len(g)
        colors = g.sh[:, 0]
        if palette:
            labels = palette.labels(g.sh[:, 1:].reshape(len(g), -1))
            images["shN_labels"][span] = np.stack([labels & 255, labels >> 8], axis=1)
            if splats.seen is not None:
                colors = colors + in_the_mean(splats.seen[span], g.sh[:, 1:] - entries[labels])
        steps = np.rint((_logs(g.means) - low) / extent * 65535).astype(np.uint16)
        step = ((1 + np.abs(g.means)) * extent / 65535).max(axis=1)
        lost.note(sizes(g) < step, _COARSE, Lost.SOME)
        images["means_l"][span], images["means_u"][span] = steps & 255, steps >> 8
        logs = finite_log_scales(g)
        images["scales"][span] = labels = scalar_labels(logs, scales)
        lost.note(np.abs(scales[labels] - logs).min(axis=1) > _FAR_SIZE, _SIZES)
        which, others = smallest_three(g.quats)
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
