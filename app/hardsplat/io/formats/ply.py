"""Splats as PLY, in the property order of the original 3DGS, which viewers and other trainers read.
Also what every PLY needs: its header checked, its records in pieces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import COEFFICIENTS, SplatStream, ahead, reading
from hardsplat.model.gaussians import OWN, Gaussians
from hardsplat.tables.quantities import QUANTITIES, of

LONGEST_HEADER = 1 << 16  # bytes; ours take 1.5 kB
ANTIALIASED = "SplatRenderMode: mip"  # the comment that Brush writes and reads
REST = tuple(3 * (k - 1) for k in COEFFICIENTS)  # number of f_rest properties by SH degree
_ORDER = ("means", "sh0", "shN", "logit_opacities", "log_scales", "quats")
_NORMALS = ("nx", "ny", "nz")  # behind the means; no one reads them
# Properties of an earlier version, beside the standard ones that look like them.
_EARLIER = ("lobe_", "filtered_opacity")


def splat_columns(sh_degree: int, extra: Iterable[str] = ()) -> dict[str, list[str]]:
    """Properties of each trained quantity, in the order of the original 3DGS, and of `extra`
    quantities behind them."""
    return {name: QUANTITIES[name].columns(sh_degree) for name in (*_ORDER, *extra)}


def read(path: Path) -> SplatStream:
    """Binary or ascii; the SH degree follows from the number of f_rest, properties that no trained
    quantity has are ignored.

    Raises UserError naming the file and the property where it is missing, and where the file is
    damaged or empty.
    """
    table = Table(path, "vertex")
    there = table.dtype.names
    rest = sum(name.startswith("f_rest_") for name in there)
    if rest not in REST:
        known = f"splats have {', '.join(map(str, REST))} for SH degrees 0 to 3"
        raise UserError(f"{path}: has {rest} f_rest properties; {known}")
    degree = REST.index(rest)
    further = (q for q in of("splat") if q.name not in OWN)
    extra = [q.name for q in further if set(q.columns(degree)) <= set(there)]
    wanted = splat_columns(degree, extra)
    if missing := [name for names in wanted.values() for name in names if name not in there]:
        hint = "is this a point cloud instead of trained splats?"
        raise UserError(f"{path}: property {missing[0]} is missing; {hint}")

    base.note_earlier(path, *(name for name in there if name.startswith(_EARLIER)))
    pieces = lambda: (_splats(records, wanted) for records in table.pieces())  # noqa: E731
    return SplatStream(table.count, degree, pieces, is_antialiased(path), tuple(extra))


def _splats(records: np.ndarray, wanted: Mapping[str, list[str]]) -> Gaussians:
    planes = {}
    for name, names in wanted.items():
        values = columns(records, names) if names else np.empty((len(records), 0), np.float32)
        shape = len(records), QUANTITIES[name].width, -1 if names else 0
        planes[name] = values.reshape(shape).transpose(2, 0, 1)
    return Gaussians.from_planes(planes)


def write(path: Path, splats: SplatStream) -> None:
    """float32 binary little endian.

    Properties: x y z, nx ny nz (zero), f_dc_0..2, f_rest (channel-major: all bands of red, of
    green, of blue), opacity (logit), scale_0..2 (log), rot_0..3 (wxyz), and those of further
    trained quantities. Of antialiased splats a comment says so.
    """
    comments = [f"comment {ANTIALIASED}"] if splats.antialiased else []
    wanted = splat_columns(splats.sh_degree, splats.extra)
    names = [name for own in wanted.values() for name in own]
    names[3:3] = _NORMALS
    head = ["ply", "format binary_little_endian 1.0", *comments, f"element vertex {splats.count}"]
    head += [*(f"property float {name}" for name in names), "end_header\n"]

    def packed(g: Gaussians) -> memoryview:
        return _records(g, wanted, len(names)).data

    with open(path, "wb") as file:
        file.write("\n".join(head).encode())
        file.writelines(ahead(splats.pieces(), packed))


def _records(g: Gaussians, wanted: Mapping[str, list[str]], width: int) -> np.ndarray:
    """(N, width) float32, the properties of splats. wanted: those of each quantity, in order."""
    planes = {**g.planes(g.sh_degree), "log_scales": base.finite_log_scales(g)[None]}
    records, at = np.zeros((len(g), width), "<f4"), 0
    for name, own in wanted.items():
        values = planes[name]
        for i in range(values.shape[2]):
            records[:, at + i * len(values) : at + (i + 1) * len(values)] = values[:, :, i].T
        at += len(own) + (len(_NORMALS) if name == "means" else 0)
    return records


def copy(path: Path, like: Path, count: int, pieces: Iterable[np.ndarray]) -> None:
    """Writes records as they are. like: a binary file that has such records, for the header. count:
    records of all pieces together."""
    header, end, _ = _head(like).partition(b"end_header\n")
    with open(path, "wb") as file:
        file.write(re.sub(rb"(?m)^element vertex .*$", b"element vertex %d" % count, header) + end)
        file.writelines(records.data for records in pieces)


def is_antialiased(path: str | Path) -> bool:
    """Whether the header of a PLY says that its splats were trained with --antialiased."""
    return f"comment {ANTIALIASED}".encode() in _head(path).partition(b"end_header")[0]


def _head(path: str | Path) -> bytes:
    """The first bytes of a file, with its header."""
    with open(path, "rb") as file:
        return file.read(LONGEST_HEADER)


# -- any PLY


class Table:
    """The records of one element of a PLY, in pieces. Reads the header alone where the file is
    binary, and all of an ascii file."""

    def __init__(self, path: Path, element: str):
        # its import takes a twentieth of a second, for which trainings need not wait
        from plyfile import PlyData

        check_header(path, element)
        with reading(path):
            data = PlyData.read(path)[element].data
        self.count, self.dtype, self._path, self._data = len(data), data.dtype, path, data

    def pieces(self) -> Iterator[np.ndarray]:
        """The records, PIECE at a time."""
        if not isinstance(self._data, np.memmap):
            yield from (self._data[at : at + n] for at, n in base.spans(self.count))
            return
        with reading(self._path), open(self._path, "rb") as file:
            file.seek(self._data.offset)
            for _, n in base.spans(self.count):
                yield np.frombuffer(base.exactly(file, n * self.dtype.itemsize), self.dtype)


def columns(records: np.ndarray, names: list[str]) -> np.ndarray:
    """(N, len(names)) float32 of a structured array. Numbers beyond float32 become infinite."""
    from numpy.lib.recfunctions import structured_to_unstructured

    with np.errstate(over="ignore"):
        return structured_to_unstructured(records[names], dtype=np.float32, copy=True)


def check_header(path: Path, wanted: str = "vertex") -> list[str]:
    """Names of the elements. Refuses what a parser would hang on or allocate for: no end of header,
    more numbers than the file has bytes, lists."""
    with reading(path), open(path, "rb") as file:
        head = file.read(LONGEST_HEADER)
        size = os.fstat(file.fileno()).st_size
    if not head:
        raise UserError(f"{path}: is empty")
    if not head.startswith(b"ply"):
        raise UserError(f"{path}: not a PLY file, it does not start with `ply`")

    elements: list[list] = []  # [name, count, number of properties]
    for line in re.split("\r\n|\r|\n", head.decode("latin-1")):
        match line.split():
            case ["end_header", *_]:
                break
            case ["element", name, amount]:
                if not re.fullmatch("[0-9]{1,15}", amount):
                    what = f"element {name[:80]} has an absurd count {amount[:80]}"
                    raise UserError(f"{path}: {what}")
                elements.append([name, int(amount), 0])
            case ["property", "list", *rest]:
                what = f"property {''.join(rest[-1:])[:80]} is a list"
                raise UserError(f"{path}: {what}; is this a mesh instead of splats?")
            case ["property", *_] if elements:
                elements[-1][2] += 1
    else:
        what = f"the PLY header does not end within {LONGEST_HEADER} bytes"
        raise UserError(f"{path}: {what}; the file is truncated or damaged")
    numbers = sum(count * max(properties, 1) for _, count, properties in elements)
    if numbers > size:
        raise UserError(f"{path}: truncated, it announces {numbers} numbers and has {size} bytes")
    if wanted == "vertex" and not any(name == "vertex" and count for name, count, _ in elements):
        raise UserError(f"{path}: has no vertices, so there are no splats in it")
    return [name for name, _, _ in elements]


def load_points(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """A point cloud: (N, 3) float64 positions from x y z, which may not be finite, (N, 3) uint8
    colours from red green blue, grey where it has none."""
    path = Path(path)
    table = Table(path, "vertex")
    records = np.concatenate(list(table.pieces()))
    positions = _points(path, records, ["x", "y", "z"]).astype(np.float64)
    names = ["red", "green", "blue"]
    if not set(names) <= set(table.dtype.names):
        return positions, np.full((len(records), 3), 128, np.uint8)
    colors = _points(path, records, names) * (255 if table.dtype["red"].kind == "f" else 1)
    return positions, base.to_bytes(np.nan_to_num(colors))


def _points(path: Path, records: np.ndarray, names: list[str]) -> np.ndarray:
    """(N, len(names)) float32."""
    for name in names:
        if name not in (records.dtype.names or ()):
            raise UserError(f"{path}: property {name} is missing; is this a point cloud?")
    return columns(records, names)
