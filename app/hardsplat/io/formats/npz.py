"""Splats as .npz: arrays named as gsplat's parameters, which hold what is trained (log scales,
logit opacities)."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfileobj

import numpy as np
from numpy.lib import format as npy

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import SplatStream, archive_in, reading
from hardsplat.model.gaussians import OWN
from hardsplat.tables.quantities import QUANTITIES, of

# gsplat's names, where they are others than in the table of what is trained
_ARRAYS = {"log_scales": "scales", "logit_opacities": "opacities"}
# array -> quantity of which every file has the numbers
_NEEDED = {_ARRAYS.get(name, name): name for name in OWN if name != "shN"}


def read(path: Path) -> SplatStream:
    """means (N, 3), quats (N, 4; wxyz), opacities (N; logit), scales (N, 3; log), sh0 (N, 1, 3), of
    any numeric type; also shN (N, K - 1, 3), or shN_i8 of it times 128, `antialiased`, a truth
    value, and further trained quantities by their names, (N, width) or (N, planes, width).

    Takes the memory of all of them. Raises UserError for anything else: arrays missing, of other
    shapes, of objects, or larger than the archive can hold.
    """
    further = [q.name for q in of("splat") if q.name not in OWN]
    known = {*_NEEDED, "shN", "shN_i8", "antialiased", *further}
    with reading(path, "not readable splats"), arrays_of(path, known, "fiu") as data:
        if missing := [name for name in _NEEDED if name not in data]:
            raise UserError(f"{path}: no array {missing[0]}; it needs {', '.join(_NEEDED)}")
        arrays = {name: data[name] for name in known if name in data}
        base.check_count(path, count := next(iter(arrays["means"].shape), 0))

        def planes_of(array: str, quantity: str, planes: int) -> np.ndarray:
            width, values = QUANTITIES[quantity].width, arrays[array]
            _check_shape(path, array, values.shape, count, planes * width)
            with np.errstate(over="ignore"):  # then it is infinite, which is counted
                return values.astype(np.float32).reshape(count, planes, width).transpose(1, 0, 2)

        found = {quantity: planes_of(array, quantity, 1) for array, quantity in _NEEDED.items()}
        found["shN"] = np.zeros((0, count, 3), np.float32)
        if rest := next((name for name in ("shN_i8", "shN") if name in arrays), None):
            bands, odd = divmod(math.prod((shape := arrays[rest].shape)[1:]), 3)
            if odd:
                wanted = f"expected ({count}, K - 1, 3)"
                raise UserError(f"{path}: array shN has shape {shape}, {wanted}")
            scale = np.float32(128 if rest == "shN_i8" else 1)
            found["shN"] = planes_of(rest, "shN", bands) / scale
        degree = base.degree_of(1 + len(found["shN"]))
        for name in further:
            if name in arrays:
                found[name] = planes_of(name, name, QUANTITIES[name].planes(degree))
        flag = arrays.get("antialiased", np.zeros(1))
        _check_shape(path, "antialiased", (1, *flag.shape), 1, 1)
    return base.of_planes(found, bool(flag.item()))


@contextmanager
def arrays_of(
    path: Path, known: Collection[str] | None = None, kinds: str = "fiuU"
) -> Iterator[Mapping[str, np.ndarray]]:
    """What numpy.load gives of an .npz. known: names of those that will be read, by default all.
    kinds: of numpy's types that they may have.

    Raises UserError for an array whose shape needs other bytes than it has, and for more than the
    archive can hold, for which numpy would take the memory first; almost anything for a damaged
    file, see `reading`.
    """
    with archive_in(path, "an .npz") as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if known is None or name in known:
                _check_member(path, archive, info, name, kinds)
    with np.load(path, allow_pickle=False) as data:
        yield data


def _check_member(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, kinds: str
) -> None:
    with archive.open(info) as file:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"array version {version} is not known")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = header(file)
        if dtype.kind not in kinds:
            raise UserError(f"{path}: array {name} is of {dtype}, expected numbers")
        needed, there = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
        if needed != there:
            what = f"array {name} of shape {shape} needs {needed} bytes and has {there}"
            raise UserError(f"{path}: {what}; damaged")


def _check_shape(path: Path, name: str, shape: tuple[int, ...], count: int, width: int) -> None:
    if not shape or shape[0] != count or math.prod(shape[1:]) != width:
        raise UserError(f"{path}: array {name} has shape {shape}, expected ({count}, {width})")


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
                copyfileobj(files[name], member)
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
