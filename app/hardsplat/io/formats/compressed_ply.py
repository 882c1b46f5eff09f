"""Splats as the compressed PLY of PlayCanvas and SuperSplat: 16 bytes a splat and one a SH
coefficient, quantized within the bounds of chunks of 256."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import PIECE, Lost, SplatStream
from hardsplat.io.formats.ply import ANTIALIASED, REST, Table, columns, elements, is_antialiased
from hardsplat.model import chunks
from hardsplat.model.chunks import CHUNK
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.tables.quantities import QUANTITIES

_PACKED = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
_BOUNDED = ("x", "y", "z"), ("scale_x", "scale_y", "scale_z"), ("r", "g", "b")
_BOUNDS = [[f"{end}_{axis}" for end in ("min", "max") for axis in axes] for axes in _BOUNDED]
_POINT = (11, 10, 11)  # bits of x, y, z
_STEPS = np.exp2(_POINT) - 1  # between the bounds of a chunk
_COLOR = (8, 8, 8, 8)
_ROTATION = (2, 10, 10, 10)  # which component (of wxyz) is the largest, then the others
_SH_RANGE = 8.0  # coefficients of -4..4 over 256 steps
_LOG_SCALES = 20.0  # bounds of chunks lie within plus and minus this
_COLORS = 4.0  # the same, away from grey; one of more would leave few steps to its chunk
_STRONG = "have harmonics beyond 4, which they became: .sog keeps them"
_HUGE = "are larger than 4.9e8 units, which they became: hardsplat edit --scale makes them smaller"
_BRIGHT = "have colours beyond -3.5 to 4.5, which they became: .sog keeps them"
_COARSE = "are smaller than the step of positions in their chunk: .sog or .spz keeps them"


def holds(path: Path) -> bool:
    if not path.is_file():
        return False
    with base.reading(path), open(path, "rb") as file:
        ply = file.read(3) == b"ply"
    return ply and "chunk" in [e.name for e in elements(path)]


def read(path: Path) -> SplatStream:
    """Raises UserError where an element or property is missing, or there are not as many chunks as
    the splats take."""
    names = [e.name for e in elements(path)]
    vertex, chunks = Table(path, "vertex"), Table(path, "chunk")
    for table, wanted in ((vertex, _PACKED), (chunks, (*_BOUNDS[0], *_BOUNDS[1]))):
        for name in wanted:
            if name not in table.dtype.names:
                raise UserError(f"{path}: property {name} of a compressed PLY is missing")
    if any(vertex.dtype[name] not in ("<u4", ">u4") for name in _PACKED):
        raise UserError(f"{path}: {', '.join(_PACKED)} must be of type uint")
    base.check_count(path, n := vertex.count)
    if chunks.count != (chunks_of := -(-n // CHUNK)):
        found = f"{chunks.count} chunks for {n:,} splats"
        raise UserError(f"{path}: has {found}, expected {chunks_of}; damaged")
    degree, bands = 0, Table(path, "sh") if "sh" in names else None
    if bands:
        known = [[(name, "u1") for name in QUANTITIES["shN"].columns(d)] for d in range(4)]
        if bands.dtype not in known:
            numbers = ", ".join(map(str, REST[1:]))
            raise UserError(f"{path}: element sh has other properties than {numbers} uchar f_rest")
        if bands.count != n:
            found = f"{bands.count} rows for {n:,} splats"
            raise UserError(f"{path}: element sh has {found}; damaged")
        degree = known.index(bands.dtype)
    return SplatStream(n, degree, lambda: _pieces(vertex, chunks, bands), is_antialiased(path))


def _pieces(vertex: Table, chunks: Table, bands: Table | None) -> Iterator[Gaussians]:
    bounds = np.concatenate(list(chunks.pieces()))
    position, scale, color = (
        columns(bounds, b).reshape(-1, 2, 3) if set(b) <= set(bounds.dtype.names or ()) else None
        for b in _BOUNDS
    )
    sh_pieces = bands.pieces() if bands else None
    for i, records in enumerate(vertex.pieces()):
        n = len(records)
        chunk = (i * PIECE + np.arange(n)) // CHUNK
        packed = [records[name].astype(np.uint32) for name in _PACKED]
        rgba = _unpack(packed[3], _COLOR)
        which = packed[1] >> 30
        others = (_unpack(packed[1], _ROTATION)[:, 1:] - 0.5) * np.sqrt(2)
        quats = base.from_smallest_three(which, others)
        sh = (_within(rgba[:, :3], color, chunk)[:, None] - 0.5) / SH_C0
        if sh_pieces:
            raw = np.ascontiguousarray(next(sh_pieces)).view("u1").reshape(n, 3, -1)
            bands_ = _SH_RANGE * (_centre(raw.transpose(0, 2, 1)) - 0.5)
            sh = np.concatenate([sh, bands_], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # such splats are counted
            means = _within(_unpack(packed[0], _POINT), position, chunk)
            scales = np.exp(_within(_unpack(packed[2], _POINT), scale, chunk))
            yield Gaussians(means, quats, scales, rgba[:, 3], sh, check=False)


def _centre(values: np.ndarray) -> np.ndarray:
    """0..1 of a byte: the middle of its step, but the ends for 0 and 255."""
    return np.where(values == 0, 0, np.where(values == 255, 1, (values + 0.5) / 256))


def _within(unorm: np.ndarray, bounds: np.ndarray | None, chunk: np.ndarray) -> np.ndarray:
    """0..1 between the bounds (chunks, 2, 3) of each splat's chunk."""
    if bounds is None:
        return unorm
    low, high = np.moveaxis(bounds[chunk].astype(np.float64), 1, 0)
    # splats of bounds that are not finite are counted
    with np.errstate(over="ignore", invalid="ignore"):
        return (low + (high - low) * unorm).astype(np.float32)


def _unpack(packed: np.ndarray, bits: tuple[int, ...]) -> np.ndarray:
    """(N, len(bits)) of 0..1 from 32 bits, the first field highest."""
    out, below = np.empty((len(packed), len(bits)), np.float32), 32
    for i, b in enumerate(bits):
        below -= b
        out[:, i] = ((packed >> below) & ((1 << b) - 1)) / ((1 << b) - 1)
    return out


def _pack(unorm: np.ndarray, bits: tuple[int, ...]) -> np.ndarray:
    out, below = np.zeros(len(unorm), np.uint32), 32
    for i, b in enumerate(bits):
        below -= b
        most = (1 << b) - 1
        steps = np.clip(np.floor(unorm[:, i] * most + 0.5), 0, most).astype(np.uint32)
        out |= steps << np.uint32(below)
    return out


def write(path: Path, splats: SplatStream) -> Lost:
    """Coefficients beyond -4..4 are clipped. Small and precise only where neighbours in space are
    neighbours in the file; runs that jump are filled up with splats of no opacity."""
    lost, bounds = Lost(), []
    with ExitStack() as stack:
        file = stack.enter_context(open(path, "wb"))
        packed, bands = (stack.enter_context(base.scratch(path)) for _ in range(2))
        rounded = lambda bands, _: _SH_RANGE * (_centre(_steps_of(bands)) - 0.5)  # noqa: E731
        for g in _runs(base.with_means(splats, rounded)):
            own, records = _compressed(g, lost)
            bounds.append(own.astype("<f4"))
            packed.write(records.astype("<u4").tobytes())
            lost.note(np.abs(g.sh[:, 1:]) > _SH_RANGE / 2 + 1 / 16, _STRONG)
            bands.write(_steps_of(g.sh[:, 1:]).transpose(0, 2, 1).tobytes())
        count = packed.tell() // (4 * len(_PACKED))
        file.write(_header(splats, sum(map(len, bounds)), count))
        file.writelines(own.data for own in bounds)
        for plane in (packed, bands):
            plane.seek(0)
            copyfileobj(plane, file)
    return lost


def _steps_of(bands: np.ndarray) -> np.ndarray:
    """uint8 of SH coefficients."""
    return np.clip((bands / _SH_RANGE + 0.5) * 256, 0, 255).astype(np.uint8)


def _header(splats: SplatStream, chunks: int, count: int) -> bytes:
    lines = ["ply", "format binary_little_endian 1.0"]
    if splats.antialiased:
        lines.append(f"comment {ANTIALIASED}")
    lines.append(f"element chunk {chunks}")
    lines += [f"property float {name}" for names in _BOUNDS for name in names]
    lines += [f"element vertex {count}", *(f"property uint {name}" for name in _PACKED)]
    if splats.sh_degree:
        names = QUANTITIES["shN"].columns(splats.sh_degree)
        lines += [f"element sh {count}", *(f"property uchar {name}" for name in names)]
    return "\n".join([*lines, "end_header\n"]).encode()


def _runs(pieces: Iterator[Gaussians]) -> Iterator[Gaussians]:
    """Splats in pieces of whole chunks, but for the last, with copies of no opacity where a run is
    cut."""
    held: Gaussians | None = None
    for piece in base.even(pieces, PIECE):
        if held is not None:
            yield (made := _filled(held))[: len(made) // CHUNK * CHUNK]
            # a run may go on in the next piece
            piece = Gaussians.concatenate([made[len(made) // CHUNK * CHUNK :], piece])
        held = piece
    if held is not None:
        yield _filled(held)


def _filled(g: Gaussians) -> Gaussians:
    rows, copies = chunks.filled(chunks.runs(g.means, base.sizes(g), _STEPS))
    return replace(g[rows], opacities=np.where(copies, 0, g.opacities[rows]), check=False)


def _compressed(g: Gaussians, lost: Lost) -> tuple[np.ndarray, np.ndarray]:
    """(chunks, 18) bounds and (N, 4) packed splats. Counts in `lost` what does not fit."""
    n, first = len(g), np.arange(0, len(g), CHUNK)
    bounds, unorms = [], []
    logs, colors = base.finite_log_scales(g), g.sh[:, 0] * SH_C0 + 0.5
    lost.note(logs > _LOG_SCALES, _HUGE)
    lost.note(np.abs(colors - 0.5) > _COLORS, _BRIGHT)
    logs = np.clip(logs, -_LOG_SCALES, _LOG_SCALES)
    for values in (g.means, logs, np.clip(colors, 0.5 - _COLORS, 0.5 + _COLORS)):
        low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
        bounds += [low, high]
        chunk = np.arange(n) // CHUNK
        span = np.where(high > low, high - low, 1)
        unorms.append((values - low[chunk]) / span[chunk])
    step = ((bounds[1] - bounds[0]) / _STEPS).max(axis=1)[np.arange(n) // CHUNK]
    lost.note((base.sizes(g) < step) & (g.opacities > 0), _COARSE, Lost.SOME)
    which, others = base.smallest_three(g.quats)
    others = np.concatenate([np.zeros((n, 1)), others * np.sqrt(0.5) + 0.5], axis=1)
    rotation = _pack(others, _ROTATION) | which.astype(np.uint32) << np.uint32(30)
    color = _pack(np.concatenate([unorms[2], g.opacities[:, None]], axis=1), _COLOR)
    fields = [_pack(unorms[0], _POINT), rotation, _pack(unorms[1], _POINT), color]
    return np.concatenate(bounds, axis=1), np.stack(fields, axis=1)
