"""Formats of splats: a module and a row each. `app/hardsplat/io/splats.py` reads and writes by this
table; tests and help walk it."""

from __future__ import annotations

from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.io.formats import (
    checkpoint,
    compressed_ply,
    glb,
    npz,
    ply,
    sog,
    sog_write,
    splat,
    spz,
    streamed_sog,
)
from hardsplat.io.formats.base import FileFormat

FILE_FORMATS = {  # of rows with the same suffix the first that holds the file reads it
    "compressed.ply": FileFormat(
        ".compressed.ply", "compressed PLY of PlayCanvas and SuperSplat", "RDF",
        compressed_ply.read, compressed_ply.write, compressed_ply.holds, morton=True,
        by_views=True),
    "ply": FileFormat(".ply", "PLY as the original 3DGS", "RDF", ply.read, ply.write),
    "checkpoint": FileFormat(
        ".npz", "checkpoint of hardsplat train", "RDF", checkpoint.read, holds=checkpoint.holds),
    "npz": FileFormat(".npz", "arrays with gsplat's names", "RDF", npz.read, npz.write),
    "splat": FileFormat(
        ".splat", "32 bytes a splat, no SH", "RDF", splat.read, splat.write,
        keeps_filter=False, highest_degree=0),
    "spz": FileFormat(
        ".spz", "SPZ of Niantic", "RUB", spz.read, spz.write, morton=True, by_views=True),
    "sog": FileFormat(
        ".sog", "SOG of PlayCanvas", "RDF", sog.read, sog_write.write, morton=True, by_views=True),
    "sog folder": FileFormat(
        sog.META, "SOG as a folder of images", "RDF", sog.read,
        holds=lambda path: path.name == sog.META, size=lambda path: sog.folder_bytes(path.parent)),
    "streamed sog": FileFormat(
        streamed_sog.NAME, "streamed SOG: levels of detail", "RDF", streamed_sog.read,
        holds=streamed_sog.holds, size=streamed_sog.size),
    "glb": FileFormat(
        ".glb", "glTF with KHR_gaussian_splatting", "LUF", glb.read, glb.write),
}  # fmt: skip


def readable() -> list[str]:
    """Suffixes of files that can be read, `.ply` among them for both kinds."""
    return list(dict.fromkeys(f".{f.suffix.rpartition('.')[2]}" for f in FILE_FORMATS.values()))


def writable() -> list[str]:
    return [f.suffix for f in FILE_FORMATS.values() if f.writes]


def format_to_read(path: Path) -> FileFormat:
    """By the end of its name, and by its content where several formats share that. Raises UserError
    where there is none."""
    known = f"splats come as {', '.join(readable())}"
    if path.is_dir():
        raise UserError(f"{path}: cannot be read: Is a directory; {known}")
    for row in FILE_FORMATS.values():
        named = path.name.lower().endswith(f".{row.suffix.rpartition('.')[2]}")
        if named and (row.holds is None or row.holds(path)):
            return row
    raise UserError(f"{path}: {known if path.exists() else f'not found; {known}'}")


def format_to_write(path: Path) -> FileFormat:
    """By the end of its name. Raises UserError where there is none."""
    for row in FILE_FORMATS.values():
        if row.writes and path.name.lower().endswith(row.suffix):
            return row
    raise UserError(f"{path}: splats are written as {', '.join(writable())}")
