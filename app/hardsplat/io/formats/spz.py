"""Splats as SPZ of Niantic: 20 bytes and one a SH coefficient before compression. Versions 1 to 3
are one gzip stream, version 4 is a ZSTD stream an attribute. Version 3 is written, because it is no
larger and more programs read it.

Layout of https://github.com/nianticlabs/spz. Axes are right, up, back.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from hardsplat.base.deflate import gzipped
from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import Lost, SplatStream, exactly, reading, to_bytes
from hardsplat.model.gaussians import Gaussians

_MAGIC = b"NGSP"
# magic, version, count, SH degree, fractional bits, flags, reserved
_OLD = struct.Struct("<4sIIBBBB")
# the same with the number of streams, and where their table is
_NEW = struct.Struct("<4sIIBBBBI12x")
_ENTRY = struct.Struct("<QQ")  # packed and raw size of a stream
_MOST_STREAMS = 6  # one may be empty
_ANTIALIASED = 1  # flag
_LEVEL = 9  # of gzip
_PIECE = 1 << 20  # bytes that a thread compresses at a time
_COEFFICIENTS = (0, 3, 8, 15, 24)  # of SH degree 0 to 4, without the constant one
# of a byte's range for one unit of the constant coefficient, so that colours beyond 0..1 are kept
_COLOR = 0.15
# SH bytes are multiples of it, which compress better. With the reference's 8 and 16 a scene of
# faint reflections lost 1.3 dB, so it loses 0.1
_BUCKET = 4
# where it is known how much training views show of splats: of those that show so much as all but
# this share, and in inverse proportion to the root of that of others
_BUCKET_OF_SEEN, _SEEN, _LARGEST_BUCKET = 10.0, 0.8, 64
_TURN = 8  # of a rotation's 511 steps: finer ones cost 0.8 bytes a splat and gain 0.01 dB
_FARTHEST = 8388607  # largest 24-bit signed number
_SMALLEST, _LARGEST = -10.0, -10 + 255 / 16  # logarithms of scales
_RESIZE = "another size of the scene, by hardsplat edit --scale, or .sog keeps them"
_HUGE = f"are larger than {np.exp(_LARGEST):.0f} units, which they became: {_RESIZE}"
_TINY = f"are smaller than {np.exp(_SMALLEST):.1g} units, which they became: {_RESIZE}"
_FAR = (
    "lie too far out for positions as fine as the others have, and became nearer and smaller: "
    ".sog keeps them"
)
_COARSE = (
    "are smaller than the step of positions: a scene around its origin, by hardsplat edit --move, "
    "or .sog keeps them"
)
_STRONG = "have harmonics beyond 1, which they became: .compressed.ply and .sog keep them"
_BRIGHT = "have colours beyond -0.45 to 1.45, which they became: .sog keeps them"
_SAMPLE = 1 << 18  # splats that the step of positions follows from


def _planes(version: int, degree: int) -> dict[str, int]:
    """Bytes of a splat in each attribute that a file has, in its order."""
    planes = {
        "positions": 6 if version == 1 else 9,
        "alphas": 1,
        "colors": 3,
        "scales": 3,
        "rotations": 3 if version < 3 else 4,
        "sh": 3 * _COEFFICIENTS[degree],
    }
    return {name: width for name, width in planes.items() if width}


def read(path: Path) -> SplatStream:
    """Raises UserError for other versions, and where streams are not of the sizes that the number
    of splats asks for. Coefficients of degree 4 are left out."""
    with reading(path), open(path, "rb") as file:
        new = file.read(4) == _MAGIC
        file.seek(0)
        layout, source = (_NEW, file) if new else (_OLD, gzip.open(file))
        head = layout.unpack(exactly(source, layout.size))
        magic, version, count, degree, bits, flags = head[:6]
        if magic != _MAGIC:
            raise UserError(f"{path}: not an SPZ file")
        if version not in ((4,) if new else (1, 2, 3)):
            raise UserError(f"{path}: SPZ version {version}; hardsplat reads 1 to 4")
        if degree >= len(_COEFFICIENTS) or bits > 24:
            what = f"SH degree {degree} with {bits} fractional bits"
            raise UserError(f"{path}: {what}, which SPZ has not; damaged")
        base.check_count(path, count)
        planes = _planes(version, degree)
        base.check_expansion(path, count * sum(planes.values()), base.size_of(path))
        offsets = _streams(path, file, count, planes, *head[6:]) if new else []
    pieces = partial(_pieces, path, offsets, planes, count, version, bits)
    return SplatStream(count, min(degree, 3), pieces, bool(flags & _ANTIALIASED))


def _streams(
    path: Path, file: IO[bytes], count: int, planes: dict[str, int], streams: int, table: int
) -> list[int]:
    """The offset of the stream of each attribute."""
    if not len(planes) <= streams <= _MOST_STREAMS:
        raise UserError(f"{path}: has {streams} streams, expected {len(planes)}; damaged")
    file.seek(table)
    at, size, out = table + streams * _ENTRY.size, base.size_of(path), []
    for name, width in planes.items():
        packed, raw = _ENTRY.unpack(exactly(file, _ENTRY.size))
        if raw != count * width or at + packed > size:
            expected = f"expected {count * width} within {size}"
            what = f"stream of {name} announces {packed} bytes for {raw}"
            raise UserError(f"{path}: {what}, {expected}; damaged")
        out.append(at)
        at += packed
    return out


def _unpacked(path: Path, offsets: list[int], sizes: list[int]) -> Iterator[bytes]:
    """The bytes of each attribute. offsets: of its stream; none where the file is one stream, which
    has them one after the other."""
    import zstandard

    coder = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    with open(path, "rb") as file, gzip.open(file) as whole:
        if not offsets:
            exactly(whole, _OLD.size)
            yield from (exactly(whole, size) for size in sizes)
        for offset, size in zip(offsets, sizes):
            file.seek(offset)
            with coder.stream_reader(file, read_size=1 << 16, closefd=False) as stream:
                yield exactly(stream, size)


def _pieces(
    path: Path, offsets: list[int], planes: dict[str, int], count: int, version: int, bits: int
) -> Iterator[Gaussians]:
    with reading(path):
        found = _unpacked(path, offsets, [count * width for width in planes.values()])
        whole = {n: np.frombuffer(b, np.uint8).reshape(count, -1) for n, b in zip(planes, found)}
    rest = min(planes.get("sh", 0) // 3, _COEFFICIENTS[3])
    for at, n in base.spans(count):
        raw = {name: values[at : at + n] for name, values in whole.items()}
        quats = _rotations(raw["rotations"])
        sh = np.empty((n, 1 + rest, 3), np.float32)
        sh[:, 0] = (raw["colors"].astype(np.float32) / 255 - 0.5) / _COLOR
        if rest:
            bands = raw["sh"].reshape(n, -1, 3)[:, :rest].astype(np.float32)
            sh[:, 1:] = (bands - 128) / 128
        scales = np.exp(raw["scales"].astype(np.float32) / 16 - 10)
        means = _positions(raw["positions"], version, bits)
        opacities = raw["alphas"][:, 0].astype(np.float32) / 255
        yield Gaussians(means, quats, scales, opacities, sh, check=False)


def _positions(raw: np.ndarray, version: int, bits: int) -> np.ndarray:
    if version == 1:
        return np.ascontiguousarray(raw).view("<f2").astype(np.float32)
    bytes_ = raw.reshape(-1, 3, 3).astype(np.int32)
    fixed = bytes_[..., 0] | bytes_[..., 1] << 8 | bytes_[..., 2] << 16
    return ((fixed ^ 1 << 23) - (1 << 23)).astype(np.float32) / (1 << bits)


def _rotations(raw: np.ndarray) -> np.ndarray:
    """(N, 4) wxyz. Three bytes are x, y, z of a unit quaternion with w >= 0; four its smallest
    three, a sign and 9 bits each."""
    if raw.shape[1] == 3:
        xyz = raw.astype(np.float32) / 127.5 - 1
        w = np.sqrt(np.maximum(0, 1 - (xyz**2).sum(axis=1, keepdims=True)))
        return np.concatenate([w, xyz], axis=1)
    packed = np.ascontiguousarray(raw).view("<u4")[:, 0]
    fields = packed[:, None] >> np.array([20, 10, 0], np.uint32)
    others = (fields & 511) / 511 * np.sqrt(0.5) * np.where(fields & 512, -1, 1)
    return np.roll(base.from_smallest_three(packed >> 30, others), 1, axis=1)  # SPZ has xyzw


def write(path: Path, splats: SplatStream) -> Lost:
    """Version 3. Positions to a power of two of a unit; coefficients beyond -1..1 and scales beyond
    e^-10..e^5.9 are clipped, and splats that are too far away brought nearer."""
    grid, lost = _grid(splats), Lost()
    planes = _planes(3, splats.sh_degree)
    with ExitStack() as stack:
        raw = {name: stack.enter_context(base.scratch(path)) for name in planes}
        buckets = _buckets(splats)
        rounded = lambda bands, span: _bytes_of(bands, buckets[span]) / 128 - 1  # noqa: E731
        for span, g in base.placed(base.with_means(splats, rounded)):
            for name, values in _packed(g, grid, buckets[span], lost).items():
                if name in planes:
                    raw[name].write(values.tobytes())
        flags = _ANTIALIASED * splats.antialiased
        header = _OLD.pack(_MAGIC, 3, splats.count, splats.sh_degree, grid.bits, flags, 0)
        for plane in raw.values():
            plane.seek(0)
        whole = chain([header], *(iter(partial(plane.read, _PIECE), b"") for plane in raw.values()))
        file = stack.enter_context(open(path, "wb"))
        file.writelines(gzipped(whole, _LEVEL))
    return lost


@dataclass(frozen=True)
class _Grid:
    """bits: of positions behind the point. middle: (3,) of most splats, world units."""

    bits: int
    middle: np.ndarray

    @property
    def step(self) -> float:
        return 2.0**-self.bits

    def inside(self, means: np.ndarray) -> np.ndarray:
        """(N,) how much nearer to the middle means (N, 3) have to be so that they fit; 1 at
        most."""
        away = means - self.middle
        room = np.where(away < 0, -_FARTHEST - 1, _FARTHEST) * self.step - self.middle
        away[np.abs(away) <= np.abs(room)] = 0
        share = np.divide(room, away, out=np.ones_like(away), where=away != 0).min(axis=1)
        return np.maximum(share, 1e-30)  # where even the middle does not fit


def _grid(splats: SplatStream) -> _Grid:
    """A step of an eighth of the size of small splats, of which 5 % are smaller; a coarser one
    where fewer splats are lost by it, either far ones, which 24 bits do not reach, or small
    ones.

    The reference always has 12 bits, which is too coarse for scenes in small units and wasteful for
    others.
    """
    means, sizes, every = [], [], max(1, splats.count // _SAMPLE)
    for g in splats.pieces():
        means.append(g.means[::every])
        sizes.append(base.sizes(g[::every]))
    places, small = np.concatenate(means).astype(np.float64), np.concatenate(sizes)
    middle, reach = np.median(places, axis=0), np.abs(places).max(axis=1)
    finest = np.ceil(np.log2(8 / max(float(np.quantile(small, 0.05)), 1e-30)))
    bits = np.arange(int(np.clip(finest, 4, 24)), -1, -1)
    # two steps in a splat: it is displaced by less than half its size in all three axes together
    lost = [(np.rint(reach * 2.0**b) > _FARTHEST).sum() + (small < 2 * 2.0**-b).sum() for b in bits]
    return _Grid(int(bits[np.argmin(lost)]), middle)


def _buckets(splats: SplatStream) -> np.ndarray:
    """(N, 1, 1) what the SH bytes of each splat are multiples of."""
    if splats.seen is None:
        return np.full((splats.count, 1, 1), np.float32(_BUCKET))
    seen = np.maximum(splats.seen[:, 0].astype(np.float64), 1e-30)
    wanted = _BUCKET_OF_SEEN * np.sqrt(np.quantile(seen, _SEEN) / seen)
    exponents = np.rint(np.log2(np.clip(wanted, 1, _LARGEST_BUCKET)))
    return np.exp2(exponents).astype(np.float32)[:, None, None]


def _bytes_of(bands: np.ndarray, buckets: np.ndarray) -> np.ndarray:
    """uint8 of SH coefficients, of -1 to 1 as 0 to 256, as multiples of their buckets."""
    return to_bytes(np.rint(bands * 128 / buckets) * buckets + 128)


def _packed(g: Gaussians, grid: _Grid, buckets: np.ndarray, lost: Lost) -> dict[str, np.ndarray]:
    """Arrays of bytes by attribute. buckets: of SH, see _buckets. Counts in `lost` what does not
    fit."""
    nearer = grid.inside(means := g.means.astype(np.float64))
    lost.note(nearer < 1, _FAR, least=0)
    means = grid.middle + nearer[:, None] * (means - grid.middle)
    fixed = np.clip(np.rint(means / grid.step), -_FARTHEST - 1, _FARTHEST).astype("<i4")
    small = base.sizes(g)
    lost.note((small < grid.step) & (nearer == 1), _COARSE, Lost.SOME)
    lost.note(small < np.exp(_SMALLEST - 1 / 32), _TINY)
    logs = base.finite_log_scales(g) + np.log(nearer)[:, None]
    lost.note(logs > _LARGEST + 1 / 32, _HUGE)
    colors = g.sh[:, 0] * (_COLOR * 255) + 127.5
    lost.note(np.abs(g.sh[:, 1:]) > 1 + 1 / 32, _STRONG)
    lost.note(np.abs(colors - 127.5) > 128.5, _BRIGHT)
    which, others = base.smallest_three(np.roll(g.quats, -1, axis=1))
    fields = np.rint(np.abs(others) / np.sqrt(0.5) * (511 / _TURN)) * _TURN
    fields = np.minimum(fields, 511).astype(np.uint32)
    fields |= (others < 0).astype(np.uint32) << np.uint32(9)
    tag = which.astype(np.uint32) << np.uint32(30)
    shifted = fields << np.array([20, 10, 0], np.uint32)
    return {
        "positions": np.ascontiguousarray(fixed[..., None].view("u1")[..., :3]),
        "alphas": to_bytes(g.opacities * 255),
        "colors": to_bytes(colors),
        "scales": to_bytes((logs - _SMALLEST) * 16),
        "rotations": (tag | np.bitwise_or.reduce(shifted, axis=1)).astype("<u4"),
        "sh": _bytes_of(g.sh[:, 1:], buckets),
    }
