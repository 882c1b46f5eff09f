"""Splats as .npz: arrays named as gsplat's parameters, which hold what is trained (log scales,
logit opacities)."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import SplatStream, archive_in, exactly, reading
from hardsplat.model.gaussians import OWN, Gaussians
from hardsplat.tables.quantities import QUANTITIES, of

# gsplat's names, where they are others than in the table of what is trained
_ARRAYS = {"log_scales": "scales", "logit_opacities": "opacities"}
# array -> numbers of a splat
_NEEDED = {_ARRAYS.get(name, name): QUANTITIES[name].width for name in OWN if name != "shN"}
_DAMAGED = "not readable splats"


def read(path: Path) -> SplatStream:
    """means (N, 3), quats (N, 4; wxyz), opacities (N; logit), scales (N, 3; log), sh0 (N, 1, 3), of
    any numeric type; also shN (N, K - 1, 3), or shN_i8 of it times 128, `antialiased`, a truth
    value, and further trained quantities by their names, (N, width) or (N, planes, width).

    Raises UserError for anything else: arrays missing, of other shapes, of objects, or larger than
    the archive can hold.
    """
    further = [q for q in of("splat") if q.name not in OWN]
    with reading(path, _DAMAGED), archive_in(path, "an .npz") as archive:
        members = _members(archive)
        if missing := [name for name in _NEEDED if name not in members]:
            raise UserError(f"{path}: no array {missing[0]}; it needs {', '.join(_NEEDED)}")
        remarks = base.earlier(name for name in members if name.startswith("lobe_"))
        wanted = (*_NEEDED, "shN", "shN_i8", *(q.name for q in further))
        shapes = {n: _header(path, archive, members[n])[0] for n in wanted if n in members}
        base.check_count(path, count := next(iter(shapes["means"]), 0))
        for name, width in _NEEDED.items():
            _check_shape(path, name, shapes[name], count, width)
        flag = members.get("antialiased")
        antialiased = bool(flag and _small(path, archive, flag))
        degree, rest = 0, shapes.get("shN_i8", shapes.get("shN"))
        if rest is not None:
            per_splat = math.prod(rest[1:])
            _check_shape(path, "shN", rest, count, per_splat)
            if per_splat % 3:
                raise UserError(f"{path}: array shN has shape {rest}, expected ({count}, K - 1, 3)")
            degree = base.degree_of(1 + per_splat // 3)
        further = [q for q in further if q.name in shapes]
        for q in further:
            _check_shape(path, q.name, shapes[q.name], count, q.width * q.planes(degree))
    extra = tuple(q.name for q in further)
    pieces = lambda: _pieces(path, count, degree, extra)  # noqa: E731
    return SplatStream(count, degree, pieces, antialiased, extra, remarks=remarks)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


@contextmanager
def arrays_of(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    """What numpy.load gives of an .npz. Raises UserError for an array whose shape needs other bytes
    than it has, and for more than the archive can hold, for which numpy would take the memory
    first; almost anything for a damaged file, see `reading`."""
    with archive_in(path, "an .npz") as archive:
        for info in archive.infolist():
            _header(path, archive, info, "fiuU")
    with np.load(path, allow_pickle=False) as data:
        yield data


def _header(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str = "fiu"
) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, whether columns come first, type) of an array, after checking that its member has
    that many bytes."""
    with archive.open(info) as file:
        shape, fortran, dtype = _read_header(file)
        name = info.filename.removesuffix(".npy")
        if dtype.kind not in kinds:
            raise UserError(f"{path}: array {name} is of {dtype}, expected numbers")
        needed, there = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
        if needed != there:
            what = f"array {name} of shape {shape} needs {needed} bytes and has {there}"
            raise UserError(f"{path}: {what}; damaged")
        return shape, fortran, dtype


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array version {version} is not known")
    return (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)


def _check_shape(path: Path, name: str, shape: tuple[int, ...], count: int, width: int) -> None:
    if not shape or shape[0] != count or math.prod(shape[1:]) != width:
        raise UserError(f"{path}: array {name} has shape {shape}, expected ({count}, {width})")


def _small(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> float:
    shape, _, dtype = _header(path, archive, info)
    _check_shape(path, info.filename, (1, *shape), 1, 1)
    with archive.open(info) as file:
        _read_header(file)
        return float(np.frombuffer(exactly(file, dtype.itemsize), dtype)[0])


def _pieces(path: Path, count: int, degree: int, extra: tuple[str, ...]) -> Iterator[Gaussians]:
    with reading(path, _DAMAGED), zipfile.ZipFile(path) as archive, ExitStack() as stack:
        members = _members(archive)
        rest = "shN_i8" if "shN_i8" in members else "shN"
        wanted = [*_NEEDED, *([rest] if degree else []), *extra]
        opened = {n: stack.enter_context(archive.open(members[n])) for n in wanted}
        arrays = {name: _Column(file, count) for name, file in opened.items()}
        for _, n in base.spans(count):
            values = {name: column.next(n) for name, column in arrays.items()}
            bands = values.get(rest, np.empty((n, 0), np.float32))
            values["shN"] = bands / np.float32(128 if rest == "shN_i8" else 1)
            planes = {name: values[_ARRAYS.get(name, name)] for name in (*OWN, *extra)}
            for name, v in planes.items():
                v = v.reshape(n, -1 if v.size else 0, QUANTITIES[name].width)
                planes[name] = v.transpose(1, 0, 2)
            yield Gaussians.from_planes(planes)


class _Column:
    """An array of the archive, some splats after the other. One that is stored by columns is read
    whole."""

    def __init__(self, file: IO[bytes], count: int):
        self._file = file
        self._shape, fortran, self._dtype = _read_header(file)
        by_columns = fortran and len(self._shape) > 1
        self._whole = self._read(count).reshape(self._shape[::-1]).T if by_columns else None
        self._at = 0

    def _read(self, n: int) -> np.ndarray:
        width = math.prod(self._shape[1:])
        return np.frombuffer(exactly(self._file, n * width * self._dtype.itemsize), self._dtype)

    def next(self, n: int) -> np.ndarray:
        """(n, ...) float32."""
        values = self._read(n) if self._whole is None else self._whole[self._at : self._at + n]
        self._at += n
        with np.errstate(over="ignore"):  # then it is infinite, which is counted
            return values.astype(np.float32).reshape(n, -1)


def write(path: Path, splats: SplatStream) -> None:
    """float32 arrays means, quats, opacities, scales, sh0, shN and further trained quantities,
    uncompressed, and `antialiased` where that is so."""
    names = [n for n in (*OWN, *splats.extra) if QUANTITIES[n].planes(splats.sh_degree)]
    shapes = {_ARRAYS.get(name, name): _shape(name, splats) for name in names}
    with ExitStack() as stack:
        files = {name: stack.enter_context(base.scratch(path)) for name in shapes}
        for piece in splats.pieces():
            planes = piece.planes(splats.sh_degree)
            planes["log_scales"] = base.finite_log_scales(piece)[None]
            for name, values in planes.items():
                if file := files.get(_ARRAYS.get(name, name)):
                    file.write(np.ascontiguousarray(values.transpose(1, 0, 2), "<f4").tobytes())
        archive = stack.enter_context(zipfile.ZipFile(path, "w"))
        for name, shape in shapes.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                head = {"descr": "<f4", "fortran_order": False, "shape": shape}
                npy.write_array_header_1_0(member, head)
                files[name].seek(0)
                while block := files[name].read(1 << 20):
                    member.write(block)
        if splats.antialiased:
            with archive.open("antialiased.npy", "w") as member:
                npy.write_array(member, np.array(1, np.uint8))


def _shape(name: str, splats: SplatStream) -> tuple[int, ...]:
    """Shape of the array of a quantity: SH as (N, coefficients, 3), single numbers as (N,)."""
    q = QUANTITIES[name]
    planes = q.planes(splats.sh_degree)
    if q.gradient == "sh" or planes > 1:
        return splats.count, planes, q.width
    return (splats.count, q.width) if q.width > 1 else (splats.count,)
