"""Formats of splats: a row each here, and a module in this folder, which is imported when a file is
read or written. Commands, their help and the tests of all formats walk the rows."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsplat.base.errors import UserError

if TYPE_CHECKING:
    from hardsplat.io.formats.base import Lost, SplatStream


@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    suffix: end of the file's name, or all of it where it begins without a dot. frame: where its
    axes x, y, z point, as in SPZ's documentation: R right, L left, U up, D down, F forward, B back.
    module: of this folder, with the functions `read` and, where it `writes`, `write`. It has
    `holds(path)` where other formats share the suffix, and `size(path)`, bytes, where several files
    belong together.

    morton: neighbours in space must be neighbours in the file for it to be small. keeps_filter: it
    can say that splats are antialiased. by_views: it loses less where `seen` of the stream is
    known. highest_degree: of the SH that it holds.
    """

    suffix: str
    frame: str
    module: str
    writes: bool = True
    morton: bool = False
    keeps_filter: bool = True
    by_views: bool = False
    highest_degree: int = 3

    @property
    def _module(self) -> Any:
        return import_module(f"{__name__}.{self.module}")

    @property
    def ending(self) -> str:
        """What follows the last dot of the suffix, and the dot."""
        return f".{self.suffix.rpartition('.')[2]}"

    def holds(self, path: Path) -> bool:
        """Whether a file is of this format, by its name, and by its content where `holds` of the
        reader asks for that."""
        whole = not self.suffix.startswith(".")
        if path.name != self.suffix if whole else not path.name.lower().endswith(self.ending):
            return False
        asks = getattr(self._module, "holds", None)
        return asks is None or asks(path)

    def read(self, path: Path) -> SplatStream:
        """Splats in the format's frame, after checks that take no memory."""
        return self._module.read(path)

    def write(self, path: Path, splats: SplatStream) -> Lost | None:
        """Writes splats in the format's frame; what the file does not hold, if anything."""
        return self._module.write(path, splats)

    def size(self, path: Path) -> int:
        """Bytes of all files that belong to it."""
        own = getattr(self._module, "size", None)
        return own(path) if own else path.stat().st_size


FILE_FORMATS = {  # of rows with the same suffix the first that holds the file reads it
    "compressed.ply": FileFormat(
        ".compressed.ply", "RDF", "compressed_ply", morton=True, by_views=True),
    "ply": FileFormat(".ply", "RDF", "ply"),
    "checkpoint": FileFormat(".npz", "RDF", "checkpoint", writes=False),
    "npz": FileFormat(".npz", "RDF", "npz"),
    "splat": FileFormat(".splat", "RDF", "splat", keeps_filter=False, highest_degree=0),
    "spz": FileFormat(".spz", "RUB", "spz", morton=True, by_views=True),
    "sog": FileFormat(".sog", "RDF", "sog", morton=True, by_views=True),
    "sog folder": FileFormat("meta.json", "RDF", "sog", writes=False),
    "streamed sog": FileFormat("lod-meta.json", "RDF", "streamed_sog", writes=False),
    "glb": FileFormat(".glb", "LUF", "glb"),
}  # fmt: skip


def readable() -> list[str]:
    """Endings of files that can be read, `.ply` among them for both kinds."""
    return list(dict.fromkeys(row.ending for row in FILE_FORMATS.values()))


def writable() -> list[str]:
    return [row.suffix for row in FILE_FORMATS.values() if row.writes]


def format_to_read(path: Path) -> FileFormat:
    """By the end of its name, and by its content where several formats share that. Raises UserError
    where there is none."""
    known = f"splats come as {', '.join(readable())}"
    if path.is_dir():
        raise UserError(f"{path}: cannot be read: Is a directory; {known}")
    for row in FILE_FORMATS.values():
        if row.holds(path):
            return row
    raise UserError(f"{path}: {known if path.exists() else f'not found; {known}'}")


def format_to_write(path: Path) -> FileFormat:
    """By the end of its name. Raises UserError where there is none."""
    for row in FILE_FORMATS.values():
        if row.writes and path.name.lower().endswith(row.suffix):
            return row
    raise UserError(f"{path}: splats are written as {', '.join(writable())}")
