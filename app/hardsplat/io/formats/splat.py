"""Splats as .splat of antimatter15's viewer: 32 bytes each, without a header and without spherical
harmonics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import Lost, SplatStream, reading, to_bytes
from hardsplat.model.gaussians import SH_C0, Gaussians

_RECORD = np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("color", "u1", 4), ("quat", "u1", 4)])
# darker ones than 0 are drawn as 0 anyway
_BRIGHT = "are brighter than 1, which they became: all other formats keep them"


def read(path: Path) -> SplatStream:
    """Position and linear scales, float32; colour and opacity, then the rotation wxyz, a byte
    each."""
    with reading(path):
        count, rest = divmod(size := base.size_of(path), _RECORD.itemsize)
    if rest:
        what = f"{size} bytes, which are no whole splats of {_RECORD.itemsize}"
        raise UserError(f"{path}: has {what}; truncated, or not a .splat")
    base.check_count(path, count)
    return SplatStream(count, 0, lambda: _pieces(path, count))


def _pieces(path: Path, count: int) -> Iterator[Gaussians]:
    with reading(path), open(path, "rb") as file:
        for _, n in base.spans(count):
            records = np.frombuffer(base.exactly(file, n * _RECORD.itemsize), _RECORD)
            colors = records["color"].astype(np.float32) / 255
            sh = (colors[:, None, :3] - 0.5) / SH_C0
            quats = records["quat"].astype(np.float32) / 128 - 1
            yield Gaussians(records["mean"], quats, records["scale"], colors[:, 3], sh, check=False)


def write(path: Path, splats: SplatStream) -> Lost:
    """Colours beyond 0..1 are clipped, SH bands above the constant one are left out."""
    lost = Lost()
    with open(path, "wb") as file:
        for g in splats.pieces():
            records = np.empty(len(g), _RECORD)
            records["mean"], records["scale"] = g.means, g.scales
            colors = g.sh[:, 0] * SH_C0 + 0.5
            lost.note(colors > 1 + 1 / 64, _BRIGHT)
            records["color"][:, :3] = to_bytes(colors * 255)
            records["color"][:, 3] = to_bytes(g.opacities * 255)
            records["quat"] = to_bytes(base.unit(g.quats) * 128 + 128)
            file.write(records.tobytes())
    return lost
