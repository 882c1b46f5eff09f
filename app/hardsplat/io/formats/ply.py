"""Splats as PLY, in the property order of the original 3DGS, which viewers and other trainers read. Also what every PLY needs: its header checked, its rows in pieces."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured
from plyfile import PlyData

from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.io.formats.base import COEFFICIENTS, Splats, exactly, finite_log_scales, reading, spans, trained

LONGEST_HEADER = 1 << 16  # bytes; ours take 1.5 kB
ANTIALIASED = "SplatRenderMode: mip"  # the comment that Brush writes and reads
REST = tuple(3 * (k - 1) for k in COEFFICIENTS)  # number of f_rest properties by SH degree


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}_{i}" for i in range(count)]


def properties(rest: int) -> list[str]:
    groups = ["x", "y", "z"], ["nx", "ny", "nz"], numbered("f_dc", 3), numbered("f_rest", rest), ["opacity"]
    return sum(groups, []) + numbered("scale", 3) + numbered("rot", 4)


def read(path: Path) -> Splats:
    """Binary or ascii; the SH degree follows from the number of f_rest, other properties are ignored.

    Raises UserError naming the file and the property where it is missing, and where the file is damaged or empty.
    """
    table = Table(path, "vertex")
    rest = sum(name.startswith("f_rest_") for name in table.dtype.names)
    if rest not in REST:
        raise UserError(f"{path}: has {rest} f_rest properties; splats have {', '.join(map(str, REST))} for SH degrees 0 to 3")
    for name in properties(rest):
        if name not in (*table.dtype.names, "nx", "ny", "nz"):
            raise UserError(f"{path}: property {name} is missing; is this a point cloud instead of trained splats?")
    return Splats(table.count, REST.index(rest), lambda: map(_splats, table.pieces()), is_antialiased(path))


def _splats(rows: np.ndarray) -> Gaussians:
    rest = sum(name.startswith("f_rest_") for name in rows.dtype.names)
    dc, bands = columns(rows, numbered("f_dc", 3)), columns(rows, numbered("f_rest", rest)) if rest else np.empty((len(rows), 0), np.float32)
    sh = np.concatenate([dc[:, None], bands.reshape(len(rows), 3, rest // 3).transpose(0, 2, 1)], axis=1)
    means, quats, log_scales = columns(rows, ["x", "y", "z"]), columns(rows, numbered("rot", 4)), columns(rows, numbered("scale", 3))
    return trained(means, quats, log_scales, columns(rows, ["opacity"])[:, 0], sh)


def write(path: Path, splats: Splats) -> None:
    """float32 binary little endian.

    Properties: x y z, nx ny nz (zero), f_dc_0..2, f_rest (channel-major: all bands of red, of green, of blue), opacity (logit),
    scale_0..2 (log), rot_0..3 (wxyz). A comment says that they are antialiased.
    """
    rest = REST[splats.sh_degree]
    comments = [f"comment {ANTIALIASED}"] if splats.antialiased else []
    names = [f"property float {name}" for name in properties(rest)]
    with open(path, "wb") as file:
        file.write("\n".join(["ply", "format binary_little_endian 1.0", *comments, f"element vertex {splats.count}", *names, "end_header\n"]).encode())
        for g in splats.pieces():
            rows = np.zeros((len(g), len(names)), "<f4")
            rows[:, :3] = g.means
            rows[:, 6:9] = g.sh[:, 0]
            rows[:, 9 : 9 + rest] = g.sh[:, 1:].transpose(0, 2, 1).reshape(len(g), rest)
            rows[:, 9 + rest] = g.logit_opacities
            rows[:, 10 + rest : 13 + rest] = finite_log_scales(g)
            rows[:, 13 + rest :] = g.quats
            file.write(rows.tobytes())


def is_antialiased(path: str | Path) -> bool:
    """Whether the header of a PLY says that its splats were trained with --antialiased."""
    with open(path, "rb") as file:
        header = file.read(LONGEST_HEADER).partition(b"end_header")[0]
    return f"comment {ANTIALIASED}".encode() in header


# -- any PLY


class Table:
    """The rows of one element of a PLY, in pieces. Reads the header alone where the file is binary, and all of an ascii file."""

    def __init__(self, path: Path, element: str):
        check_header(path, element)
        with reading(path):
            data = PlyData.read(path)[element].data
        self.count, self.dtype = len(data), data.dtype
        if isinstance(data, np.memmap):
            offset = data.offset
            self.pieces: Callable[..., Iterator[np.ndarray]] = lambda size=None: self._from(path, offset, size)
        else:
            self.pieces = lambda size=None: (data[at : at + n] for at, n in spans(self.count, *([size] if size else [])))

    def _from(self, path: Path, offset: int, size: int | None) -> Iterator[np.ndarray]:
        with reading(path), open(path, "rb") as file:
            file.seek(offset)
            for _, n in spans(self.count, *([size] if size else [])):
                yield np.frombuffer(exactly(file, n * self.dtype.itemsize), self.dtype)


def columns(rows: np.ndarray, names: list[str]) -> np.ndarray:
    """(N, len(names)) float32 of a structured array. Numbers beyond float32 become infinite."""
    with np.errstate(over="ignore"):
        return structured_to_unstructured(rows[names], dtype=np.float32, copy=True)


def check_header(path: Path, wanted: str = "vertex") -> list[str]:
    """Names of the elements. Refuses what a parser would hang on or allocate for: no end of header, more numbers than the file has bytes, lists."""
    with reading(path), open(path, "rb") as file:
        head = file.read(LONGEST_HEADER)
        size = os.fstat(file.fileno()).st_size
    if not head.startswith(b"ply"):
        raise UserError(f"{path}: not a PLY file, it does not start with `ply`")

    elements: list[list] = []  # [name, count, number of properties]
    for line in re.split("\r\n|\r|\n", head.decode("latin-1")):
        match line.split():
            case ["end_header", *_]:
                break
            case ["element", name, amount]:
                if not re.fullmatch("[0-9]{1,15}", amount):
                    raise UserError(f"{path}: element {name[:80]} has an absurd count {amount[:80]}")
                elements.append([name, int(amount), 0])
            case ["property", "list", *rest]:
                raise UserError(f"{path}: property {rest[-1][:80] if rest else ''} is a list; is this a mesh instead of splats?")
            case ["property", *_] if elements:
                elements[-1][2] += 1
    else:
        raise UserError(f"{path}: the PLY header does not end within {LONGEST_HEADER} bytes; the file is truncated or damaged")
    numbers = sum(count * max(properties, 1) for _, count, properties in elements)
    if numbers > size:
        raise UserError(f"{path}: truncated, it announces {numbers} numbers and has {size} bytes")
    if wanted == "vertex" and not any(name == "vertex" and count for name, count, _ in elements):
        raise UserError(f"{path}: has no vertices, so there are no splats in it")
    return [name for name, _, _ in elements]
