"""Splats as PLY, in the property order of the original 3DGS, which viewers and other trainers
read. Also what every PLY needs: its header checked, the records of an element in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import COEFFICIENTS, SplatStream, ahead, reading
from hardsplat.model.gaussians import OWN, Gaussians
from hardsplat.tables.quantities import QUANTITIES, of

LONGEST_HEADER = 1 << 16  # bytes; ours take 1.5 kB
_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": ""}
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
ANTIALIASED = "SplatRenderMode: mip"  # the comment that Brush writes and reads
REST = tuple(3 * (k - 1) for k in COEFFICIENTS)  # number of f_rest properties by SH degree
_ORDER = ("means", "sh0", "shN", "logit_opacities", "log_scales", "quats")
_NORMALS = ("nx", "ny", "nz")  # behind the means; no one reads them
# Mip-Splatting: standard deviation, world units, of what each splat is smoothed by.
_SMOOTHED = "filter_3D"
# 2DGS has discs: no third scale, for which a thin one of this share of the others is taken
_FLAT, _THIN = "scale_2", 1e-3


def splat_columns(sh_degree: int, extra: Iterable[str] = ()) -> dict[str, list[str]]:
    """Properties of each trained quantity, in the order of the original 3DGS, and of `extra`
    quantities behind them."""
    return {name: QUANTITIES[name].columns(sh_degree) for name in (*_ORDER, *extra)}


def read(path: Path) -> SplatStream:
    """Binary or ascii; the SH degree follows from the number of f_rest, properties that no trained
    quantity has are ignored. Discs of 2DGS become thin splats, and what Mip-Splatting keeps beside
    scales and opacities is brought into them.

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
    flat = {"scale_0", "scale_1", "rot_0"} <= {*there} and _FLAT not in there
    if flat:
        wanted["log_scales"] = wanted["log_scales"][:2]
    if missing := [name for names in wanted.values() for name in names if name not in there]:
        hint = "is this a mesh or a point cloud instead of trained splats?"
        raise UserError(f"{path}: property {missing[0]} is missing; {hint}")

    remarks, smoothed = list[str](), _SMOOTHED in there
    if flat:
        remarks.append("discs of 2DGS, with two scales: read as thin splats, which look alike")
    if smoothed:
        remarks.append(f"of Mip-Splatting: {_SMOOTHED} was brought into scales and opacities")

    def splats(records: np.ndarray) -> Gaussians:
        g = _splats(records, wanted)
        return _fused(g, columns(records, [_SMOOTHED])[:, 0]) if smoothed else g

    pieces = lambda: (splats(records) for records in table.pieces())  # noqa: E731
    said = is_antialiased(path)
    return SplatStream(table.count, degree, pieces, said, tuple(extra), remarks=tuple(remarks))


def _splats(records: np.ndarray, wanted: Mapping[str, list[str]]) -> Gaussians:
    planes = {}
    for name, names in wanted.items():
        values = columns(records, names) if names else np.empty((len(records), 0), np.float32)
        if name == "log_scales" and len(names) == 2:
            thin = values.min(axis=1, keepdims=True) + np.float32(np.log(_THIN))
            values = np.concatenate([values, thin], axis=1)
        shape = len(records), QUANTITIES[name].width, -1 if names else 0
        planes[name] = values.reshape(shape).transpose(2, 0, 1)
    return Gaussians.from_planes(planes)


def _fused(g: Gaussians, smoothing: np.ndarray) -> Gaussians:
    """Splats convolved with isotropic Gaussians, of the same integral (Yu et al. 2024,
    Mip-Splatting, equation 9). smoothing: (N,) their standard deviations, world units."""
    squares = g.scales.astype(np.float64) ** 2
    with np.errstate(all="ignore"):  # what is not finite is counted later
        larger = squares + smoothing[:, None].astype(np.float64) ** 2
        share = np.sqrt(np.prod(squares / np.where(larger > 0, larger, 1), axis=1))
        opacities = g.opacities * share
        return replace(g, scales=np.sqrt(larger), opacities=opacities, check=False)


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


def is_antialiased(path: Path) -> bool:
    """Whether the header of a PLY says that its splats were trained with --antialiased."""
    return f"comment {ANTIALIASED}".encode() in _head(path).partition(b"end_header")[0]


def _head(path: Path) -> bytes:
    """The first bytes of a file, with its header."""
    with open(path, "rb") as file:
        return file.read(LONGEST_HEADER)


# -- any PLY


@dataclass
class Element:
    """types: of its properties, by name. lists: names of properties that are lists, of which no
    record says how long it is before it is read."""

    name: str
    count: int
    types: dict[str, str] = field(default_factory=dict)
    lists: list[str] = field(default_factory=list)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(list(self.types.items()))


def elements(path: Path) -> list[Element]:
    """The elements that a header announces. Refuses what a parser would allocate or search for
    long: no end of header, more numbers than the file has bytes."""
    return _header(path)[0]


def _header(path: Path) -> tuple[list[Element], str, int]:
    """Elements, the byte order, empty for ascii, and where data begin."""
    with reading(path):
        head, size = _head(path), base.size_of(path)
    if not head:
        raise UserError(f"{path}: is empty")
    if not head.startswith(b"ply"):
        raise UserError(f"{path}: not a PLY file, it does not start with `ply`")
    end = re.search(rb"(?:\r\n|\r|\n)end_header *(?:\r\n|\r|\n)", head)
    if not end:
        what = f"the PLY header does not end within {LONGEST_HEADER} bytes"
        raise UserError(f"{path}: {what}; the file is truncated or damaged")
    found: list[Element] = []
    order = None
    for line in re.split("\r\n|\r|\n", head[: end.start()].decode("latin-1")):
        match line.split():
            case ["format", kind, _] if kind in _ORDERS:
                order = _ORDERS[kind]
            case ["element", name, amount]:
                if not re.fullmatch("[0-9]{1,15}", amount):
                    what = f"element {name[:80]} has an absurd count {amount[:80]}"
                    raise UserError(f"{path}: {what}")
                found.append(Element(name, int(amount)))
            case ["property", "list", _, _, name] if found:
                found[-1].lists.append(name)
            case ["property", kind, name] if found and kind in _TYPES:
                if name in found[-1].types:
                    raise UserError(f"{path}: its header has property {name[:80]} twice; damaged")
                found[-1].types[name] = (order or "") + _TYPES[kind]
            case ["ply"] | ["comment" | "obj_info", *_] | []:
                pass
            case _:
                raise UserError(f"{path}: the PLY header has a line `{line[:80]}`; damaged")
    if order is None:
        raise UserError(f"{path}: the PLY header names no format of data; damaged")
    numbers = sum(e.count * max(len(e.types) + len(e.lists), 1) for e in found)
    if numbers > size:
        raise UserError(f"{path}: truncated, it announces {numbers} numbers and has {size} bytes")
    return found, order, end.end()


class Table:
    """The records of one element of a PLY, in pieces. Reads the header alone where the file is
    binary, and all of an ascii file.

    Elements besides may be anything, but lists before this one in a binary file. Raises UserError
    where it is missing or has lists itself.
    """

    def __init__(self, path: Path, element: str):
        found, order, start = _header(path)
        names = [e.name for e in found]
        empty = element == "vertex" and not sum(e.count for e in found if e.name == element)
        if element not in names or empty:
            what = "vertices, so there are no splats in it" if element == "vertex" else element
            raise UserError(f"{path}: has no {what}")
        own, before = found[(at := names.index(element))], found[:at]
        if own.lists:
            what = f"property {own.lists[0][:80]} of {element} is a list"
            raise UserError(f"{path}: {what}, which splats and points do not have")
        self.dtype: Any = own.dtype
        self.count, self._path, self._rows = own.count, path, None
        if not order:
            # its import takes a twentieth of a second, for which trainings need not wait
            from plyfile import PlyData

            with reading(path):
                self._rows = PlyData.read(path)[element].data
            return
        if lists := [e.name for e in before if e.lists and e.count]:
            advice = "write it with the vertices first"
            raise UserError(f"{path}: {lists[0][:80]} with lists stand before {element}; {advice}")
        self._start = start + sum(e.count * e.dtype.itemsize for e in before)
        if self._start + self.count * self.dtype.itemsize > base.size_of(path):
            raise UserError(f"{path}: truncated, it ends within {self.count} of {element}")

    def pieces(self) -> Iterator[np.ndarray]:
        """The records, PIECE at a time."""
        if self._rows is not None:
            yield from (self._rows[at : at + n] for at, n in base.spans(self.count))
            return
        with reading(self._path), open(self._path, "rb") as file:
            file.seek(self._start)
            for _, n in base.spans(self.count):
                yield np.frombuffer(base.exactly(file, n * self.dtype.itemsize), self.dtype)


def columns(records: np.ndarray, names: list[str]) -> np.ndarray:
    """(N, len(names)) float32 of a structured array. Numbers beyond float32 become infinite."""
    from numpy.lib.recfunctions import structured_to_unstructured

    with np.errstate(over="ignore"):
        return structured_to_unstructured(records[names], dtype=np.float32, copy=True)


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
