"""Splats as SPZ of Niantic: 20 bytes and one a SH coefficient before compression. Versions 1 to 3
are one gzip stream, version 4 is a ZSTD stream an attribute.

Layout of https://github.com/nianticlabs/spz. Axes are right, up, back.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from typing import IO

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import Readable, SplatStream, exactly, reading, to_bytes
from hardsplat.model.gaussians import Gaussians

_MAGIC = b"NGSP"
# magic, version, count, SH degree, fractional bits, flags, reserved
_OLD = struct.Struct("<4sIIBBBB")
# the same with the number of streams, and where their table is
_NEW = struct.Struct("<4sIIBBBBI12x")
_ENTRY = struct.Struct("<QQ")  # packed and raw size of a stream
_ANTIALIASED = 1  # flag
_LEVEL = 12  # of ZSTD, as the reference; 19 takes 5 times as long for 3 % less
_COEFFICIENTS = (0, 3, 8, 15, 24)  # of SH degree 0 to 4, without the constant one
# of a byte's range for one unit of the constant coefficient, so that colours beyond 0..1 are kept
_COLOR = 0.15
# SH bytes are multiples of it, which compress better. With the reference's 8 and 16 a scene of
# faint reflections lost 1.3 dB, so it loses 0.1
_BUCKET = 4
_FARTHEST = 8388607  # largest 24-bit signed number


def _planes(version: int, degree: int) -> dict[str, int]:
    """Bytes of a splat in each attribute, in the order of the file."""
    return {
        "positions": 6 if version == 1 else 9,
        "alphas": 1,
        "colors": 3,
        "scales": 3,
        "rotations": 3 if version < 3 else 4,
        "sh": 3 * _COEFFICIENTS[degree],
    }


def read(path: Path) -> SplatStream:
    """Raises UserError for other versions, and where streams are not of the sizes that the number
    of splats asks for. Coefficients of degree 4 are left out.

    The attributes lie one after the other in the one stream of an old file, so it is decompressed
    once for each of them.
    """
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
        if new:
            offsets = _streams(path, file, count, planes, *head[6:])
        else:
            before = np.cumsum([_OLD.size, *(count * width for width in planes.values())])
            offsets = {n: at for n, at in zip(planes, before.tolist()) if planes[n]}
    pieces = partial(_pieces, path, offsets, count, version, degree, bits)
    return SplatStream(count, min(degree, 3), pieces, bool(flags & _ANTIALIASED))


def _streams(
    path: Path, file: IO[bytes], count: int, planes: dict[str, int], streams: int, table: int
) -> dict[str, int]:
    """The offset of the stream of each attribute that has any bytes."""
    wanted = [name for name in planes if planes[name]]
    if not len(wanted) <= streams <= len(planes):
        raise UserError(f"{path}: has {streams} streams, expected {len(wanted)}; damaged")
    file.seek(table)
    at, size, out = table + streams * _ENTRY.size, base.size_of(path), {}
    for name in wanted:
        packed, raw = _ENTRY.unpack(exactly(file, _ENTRY.size))
        if raw != count * planes[name] or at + packed > size:
            expected = f"expected {count * planes[name]} within {size}"
            what = f"stream of {name} announces {packed} bytes for {raw}"
            raise UserError(f"{path}: {what}, {expected}; damaged")
        out[name] = at
        at += packed
    return out


def _opened(stack: ExitStack, path: Path, offset: int, new: bool) -> Readable:
    """The bytes of an attribute. offset: in the file, or in what an old one is decompressed to."""
    import zstandard

    if not new:
        old = stack.enter_context(gzip.open(path))
        old.seek(offset)
        return old
    file = stack.enter_context(open(path, "rb"))
    file.seek(offset)
    coder = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    return stack.enter_context(coder.stream_reader(file, read_size=1 << 16))


def _pieces(
    path: Path, offsets: dict[str, int], count: int, version: int, degree: int, bits: int
) -> Iterator[Gaussians]:
    planes = _planes(version, degree)
    with reading(path), ExitStack() as stack:
        files = {n: _opened(stack, path, at, version == 4) for n, at in offsets.items()}
        for _, n in base.spans(count):
            data = {name: exactly(file, n * planes[name]) for name, file in files.items()}
            raw = {name: np.frombuffer(data[name], np.uint8).reshape(n, -1) for name in data}
            quats = _rotations(raw["rotations"])
            sh = np.empty((n, 1 + _COEFFICIENTS[min(degree, 3)], 3), np.float32)
            sh[:, 0] = (raw["colors"].astype(np.float32) / 255 - 0.5) / _COLOR
            if degree:
                bands = raw["sh"].reshape(n, -1, 3)[:, : sh.shape[1] - 1].astype(np.float32)
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


def write(path: Path, splats: SplatStream) -> None:
    """Version 4. Positions to a power of two of a unit that all of them fit; coefficients beyond
    -1..1 and scales beyond e^-10..e^5.9 are clipped."""
    import zstandard

    bits = _fractional_bits(splats)
    planes = {name: width for name, width in _planes(4, splats.sh_degree).items() if width}
    with ExitStack() as stack:
        file = stack.enter_context(open(path, "wb"))
        packed = {name: stack.enter_context(base.scratch(path)) for name in planes}
        coder = partial(zstandard.ZstdCompressor, level=_LEVEL)
        compress = {name: coder().compressobj(splats.count * w) for name, w in planes.items()}
        for g in splats.pieces():
            for name, values in _packed(g, bits).items():
                if name in planes:
                    packed[name].write(compress[name].compress(values.tobytes()))
        for name in planes:
            packed[name].write(compress[name].flush())
        about = splats.sh_degree, bits, _ANTIALIASED * splats.antialiased, len(planes), _NEW.size
        file.write(_NEW.pack(_MAGIC, 4, splats.count, *about))
        for name, width in planes.items():
            file.write(_ENTRY.pack(packed[name].tell(), splats.count * width))
        for plane in packed.values():
            plane.seek(0)
            copyfileobj(plane, file)


def _fractional_bits(splats: SplatStream) -> int:
    """Enough to make a step an eighth of the size of small splats, of which 5 % are smaller; fewer
    where the farthest splat would not fit into 24 bits.

    The reference always has 12, which is too coarse for scenes in small units and wasteful for
    others.
    """
    farthest, sizes, every = 0.0, [], max(1, splats.count >> 18)  # a sample is enough
    for g in splats.pieces():
        farthest = max(farthest, float(np.abs(g.means).max()))
        axes = np.sort(g.scales[::every], axis=1).astype(np.float64)
        sizes.append(np.sqrt(axes[:, 1] * axes[:, 2]))
    small = max(float(np.quantile(np.concatenate(sizes), 0.05)), 1e-30)
    bits = int(np.clip(np.ceil(np.log2(8 / small)), 4, 24))
    while bits and round(farthest * 2**bits) > _FARTHEST:
        bits -= 1
    return bits


def _packed(g: Gaussians, bits: int) -> dict[str, np.ndarray]:
    """Arrays of bytes by attribute."""
    fixed = np.rint(g.means.astype(np.float64) * 2**bits)
    fixed = np.clip(fixed, -_FARTHEST - 1, _FARTHEST).astype("<i4")
    which, others = base.smallest_three(np.roll(g.quats, -1, axis=1))
    fields = np.minimum(np.rint(np.abs(others) / np.sqrt(0.5) * 511), 511).astype(np.uint32)
    fields |= (others < 0).astype(np.uint32) << np.uint32(9)
    tag = which.astype(np.uint32) << np.uint32(30)
    shifted = fields << np.array([20, 10, 0], np.uint32)
    return {
        "positions": np.ascontiguousarray(fixed[..., None].view("u1")[..., :3]),
        "alphas": to_bytes(g.opacities * 255),
        "colors": to_bytes(g.sh[:, 0] * (_COLOR * 255) + 127.5),
        "scales": to_bytes((base.finite_log_scales(g) + 10) * 16),
        "rotations": (tag | np.bitwise_or.reduce(shifted, axis=1)).astype("<u4"),
        "sh": to_bytes(np.rint(g.sh[:, 1:] * (128 / _BUCKET)) * _BUCKET + 128),
    }
