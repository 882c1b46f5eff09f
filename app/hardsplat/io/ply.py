"""Splats as PLY, in the property order of the original 3DGS, which viewers and other trainers read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyElement

from hardsplat.errors import UserError
from hardsplat.files import replacing
from hardsplat.gaussians import Gaussians

_LONGEST_HEADER = 1 << 16  # bytes; ours take 1.5 kB
_ANTIALIASED = "SplatRenderMode: mip"  # the comment that Brush writes and reads
_REST = (0, 9, 24, 45)  # number of f_rest properties of SH degree 0, 1, 2, 3


def _numbered(prefix, count):
    return [f"{prefix}_{i}" for i in range(count)]


def _properties(rest):
    groups = ["x", "y", "z"], ["nx", "ny", "nz"], _numbered("f_dc", 3), _numbered("f_rest", rest), ["opacity"]
    return sum(groups, []) + _numbered("scale", 3) + _numbered("rot", 4)


def save_ply(path: str | Path, gaussians: Gaussians, antialiased: bool = False) -> None:
    """Writes float32 binary little endian; an earlier file at `path` stays whole until the new one is complete.

    Properties: x y z, nx ny nz (zero), f_dc_0..2, f_rest (channel-major: all bands of red, of green, of blue), opacity (logit),
    scale_0..2 (log), rot_0..3 (wxyz). antialiased: a comment says that they were trained so. Raises UserError when the file cannot be written.
    """
    path = Path(path)
    n, rest = len(gaussians), 3 * (gaussians.sh.shape[1] - 1)
    rows = np.zeros((n, len(_properties(rest))), "<f4")
    rows[:, :3] = gaussians.means
    rows[:, 6:9] = gaussians.sh[:, 0]
    rows[:, 9 : 9 + rest] = gaussians.sh[:, 1:].transpose(0, 2, 1).reshape(n, rest)
    rows[:, 9 + rest] = gaussians.logit_opacities
    # A scale can underflow to 0 in float32; its logarithm would be unreadable.
    rows[:, 10 + rest : 13 + rest] = np.log(np.maximum(gaussians.scales, np.finfo(np.float32).tiny))
    rows[:, 13 + rest :] = gaussians.quats
    table = rows.view([(name, "<f4") for name in _properties(rest)])[:, 0]

    try:
        with replacing(path) as partial:
            PlyData([PlyElement.describe(table, "vertex")], byte_order="<", comments=[_ANTIALIASED] if antialiased else []).write(partial)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error


def load_ply(path: str | Path) -> Gaussians:
    """Reads binary or ascii; the SH degree follows from the number of f_rest, other properties are ignored.

    Raises UserError naming the file and the property when it is missing, damaged, empty or holds what no splat can have.
    """
    path = Path(path)
    _check_header(path)
    vertex = _vertices(path)
    rest = sum(name.startswith("f_rest_") for name in vertex.dtype.names)
    if rest not in _REST:
        raise UserError(f"{path}: has {rest} f_rest properties; splats have {', '.join(map(str, _REST))} for SH degrees 0 to 3")
    means = _columns(path, vertex, ["x", "y", "z"])
    dc, bands = _columns(path, vertex, _numbered("f_dc", 3)), _columns(path, vertex, _numbered("f_rest", rest))
    opacity = _columns(path, vertex, ["opacity"])[:, 0]
    log_scales, quats = _columns(path, vertex, _numbered("scale", 3)), _columns(path, vertex, _numbered("rot", 4))

    huge = log_scales.max(axis=1) > np.log(np.finfo(np.float32).max)
    if huge.any():
        raise UserError(f"{path}: scale of splat {huge.argmax()} is a logarithm of {log_scales.max():g}, beyond float32 ({huge.sum()} such splats)")
    zero = ~quats.any(axis=1)
    if zero.any():
        raise UserError(f"{path}: rot_0..rot_3 of splat {zero.argmax()} are all zero, which is no rotation ({zero.sum()} such splats)")
    sh = np.concatenate([dc[:, None], bands.reshape(len(vertex), 3, rest // 3).transpose(0, 2, 1)], axis=1)
    # The logistic function is flat in float32 long before 100; beyond, its exponential overflows.
    return Gaussians.from_parameters(means, quats, log_scales, np.clip(opacity, -100, 100), sh)


def is_antialiased(path: str | Path) -> bool:
    """Whether the header of a PLY says that its splats were trained with --antialiased."""
    with open(path, "rb") as file:
        header = file.read(_LONGEST_HEADER).partition(b"end_header")[0]
    return f"comment {_ANTIALIASED}".encode() in header


def load_points(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """A point cloud: (N, 3) float64 positions from x y z, (N, 3) uint8 colours from red green blue, grey where it has none."""
    path = Path(path)
    _check_header(path)
    vertex = _vertices(path)
    positions = _columns(path, vertex, ["x", "y", "z"]).astype(np.float64)
    names = ["red", "green", "blue"]
    if not set(names) <= set(vertex.dtype.names):
        return positions, np.full((len(vertex), 3), 128, np.uint8)
    colors = _columns(path, vertex, names) * (255 if vertex["red"].dtype.kind == "f" else 1)
    return positions, np.clip(np.rint(colors), 0, 255).astype(np.uint8)


def _vertices(path) -> np.ndarray:
    try:
        return PlyData.read(path)["vertex"].data
    except Exception as error:  # the parser raises almost anything on a damaged file
        raise UserError(f"{path}: truncated or damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error


def _columns(path, vertex, names) -> np.ndarray:
    """(N, len(names)) float32, finite."""
    out = np.empty((len(vertex), len(names)), np.float32)
    for i, name in enumerate(names):
        if name not in vertex.dtype.names:
            raise UserError(f"{path}: property {name} is missing; is this a point cloud instead of trained splats?")
        with np.errstate(over="ignore"):
            out[:, i] = vertex[name]
        bad = ~np.isfinite(out[:, i])
        if bad.any():
            raise UserError(f"{path}: property {name} of splat {bad.argmax()} is NaN or infinite ({bad.sum()} such splats)")
    return out


def _check_header(path):
    """Refuses what the parser would hang on or allocate for: no end of header, more numbers than the file has bytes, lists."""
    try:
        with open(path, "rb") as file:
            head = file.read(_LONGEST_HEADER)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    if not head.startswith(b"ply"):
        raise UserError(f"{path}: not a PLY file, it does not start with `ply`")

    elements = []  # [name, count, number of properties]
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
        raise UserError(f"{path}: the PLY header does not end within {_LONGEST_HEADER} bytes; the file is truncated or damaged")
    numbers = sum(count * max(properties, 1) for _, count, properties in elements)
    if numbers > size:
        raise UserError(f"{path}: truncated, it announces {numbers} numbers and has {size} bytes")
    if not any(name == "vertex" and count for name, count, _ in elements):
        raise UserError(f"{path}: has no vertices, so there are no splats in it")
