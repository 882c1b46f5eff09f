"""PLY files by name: splats in the layout of the original 3DGS, and point clouds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing
from hardsplat.io.formats.base import of_planes, writing
from hardsplat.io.formats.ply import Table, columns, is_antialiased, write
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.gaussians import Gaussians

__all__ = ["is_antialiased", "load_ply", "load_points", "save_planes", "save_ply"]


def save_ply(path: str | Path, gaussians: Gaussians, antialiased: bool = False) -> None:
    """Writes float32 binary little endian; an earlier file at `path` stays whole until the new one
    is complete.

    antialiased: a comment says that they were trained so. Raises UserError when the file cannot be
    written.
    """
    save_splats(path, gaussians, antialiased)


def save_planes(
    path: str | Path, planes: Mapping[str, np.ndarray], antialiased: bool = False
) -> None:
    """save_ply, of splats from their trained values, (planes, N, width) by name."""
    splats = of_planes(planes, antialiased)
    with writing(Path(path)), replacing(Path(path)) as partial:
        write(partial, splats)


def load_ply(path: str | Path) -> Gaussians:
    """Reads splats, also compressed ones. Raises UserError when the file is missing, damaged,
    empty, or no splats."""
    return load_splats(path)


def load_points(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """A point cloud: (N, 3) float64 positions from x y z, (N, 3) uint8 colours from red green blue,
    grey where it has none."""
    path = Path(path)
    table = Table(path, "vertex")
    records = np.concatenate(list(table.pieces()))
    positions = _points(path, records, ["x", "y", "z"]).astype(np.float64)
    names = ["red", "green", "blue"]
    if not set(names) <= set(table.dtype.names):
        return positions, np.full((len(records), 3), 128, np.uint8)
    colors = _points(path, records, names) * (255 if table.dtype["red"].kind == "f" else 1)
    return positions, np.clip(np.rint(colors), 0, 255).astype(np.uint8)


def _points(path: Path, records: np.ndarray, names: list[str]) -> np.ndarray:
    """(N, len(names)) float32, finite."""
    for name in names:
        if name not in (records.dtype.names or ()):
            raise UserError(f"{path}: property {name} is missing; is this a point cloud?")
    out = columns(records, names)
    bad = ~np.isfinite(out)
    if bad.any():
        point, column = np.argwhere(bad)[0]
        raise UserError(
            f"{path}: property {names[column]} of point {point} is NaN or infinite "
            f"({bad.any(axis=1).sum()} such points)"
        )
    return out
