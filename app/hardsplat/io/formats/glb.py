"""Splats as binary glTF with KHR_gaussian_splatting. glTF's scenes are y up; as SPZ's and
splat-transform's, ours face +z: left, up, forward.

https://github.com/KhronosGroup/glTF/tree/main/extensions/2.0/Khronos/KHR_gaussian_splatting
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats import base
from hardsplat.io.formats.base import COEFFICIENTS, SplatStream, exactly, reading, to_bytes, unit
from hardsplat.io.formats.frames import rotated
from hardsplat.model.camera import rotation_matrix
from hardsplat.model.gaussians import SH_C0, Gaussians

log = logging.getLogger(__name__)

NAME = "KHR_gaussian_splatting"
COLORS = "srgb_rec709_display"  # what training on photographs gives
HEADER, CHUNK = struct.Struct("<4sII"), struct.Struct("<I4s")
_LONGEST_JSON = 16 << 20  # bytes; ours take 8 kB
_TYPES = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5126: "<f4"}  # componentType
_WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}


def sh_names(degree: int) -> list[str]:
    return [f"{NAME}:SH_DEGREE_{l}_COEF_{n}" for l in range(degree + 1) for n in range(2 * l + 1)]


def names(degree: int) -> list[str]:
    """Attributes of splats."""
    own = (f"{NAME}:{part}" for part in ("ROTATION", "SCALE", "OPACITY"))
    return ["POSITION", *own, *sh_names(degree)]


@dataclass(frozen=True)
class _Primitive:
    """One set of splats of the scene. attributes: (N, width) as the file has them, by name, and
    whether they are shares of the largest number of their type. rotation (3, 3), scale and shift
    (3,) place it in the world."""

    attributes: dict[str, tuple[np.ndarray, bool]]
    degree: int
    rotation: np.ndarray
    scale: float
    shift: np.ndarray

    @property
    def count(self) -> int:
        return len(self.attributes["POSITION"][0])


def read(path: Path) -> SplatStream:
    """All primitives with the extension, placed by their nodes. Raises UserError for compressed
    ones, for accessors that reach beyond the file's one binary chunk, and for nodes that shear or
    stretch.
    """
    with reading(path):
        gltf, binary = _chunks(path)
        primitives = [_primitive(path, gltf, binary, *found) for found in _found(path, gltf)]
        if not primitives:
            what = f"no primitive with {NAME} in its scene"
            raise UserError(f"{path}: {what}, so there are no splats in it")
        count = sum(p.count for p in primitives)
        base.check_count(path, count)
        degree = max(p.degree for p in primitives)
        antialiased = bool(gltf["asset"].get("extras", {}).get("antialiased", False))
    return SplatStream(count, degree, lambda: _pieces(primitives, degree), antialiased)


def _chunks(path: Path) -> tuple[dict, np.ndarray]:
    """The JSON, and the binary chunk as it lies in the file, uint8."""
    size, damaged = base.size_of(path), f"{path}: truncated or damaged"
    with open(path, "rb") as file:
        magic, version, length = HEADER.unpack(exactly(file, HEADER.size))
        if magic != b"glTF" or version != 2:
            raise UserError(f"{path}: not a binary glTF file of version 2")
        json_length, kind = CHUNK.unpack(exactly(file, CHUNK.size))
        if kind != b"JSON" or json_length > _LONGEST_JSON or length > size:
            there = f"{size} there, {json_length} of them JSON"
            raise UserError(f"{damaged}: {length} bytes announced, {there}")
        gltf = json.loads(exactly(file, json_length))
        start = file.tell() + CHUNK.size
        binary, kind = CHUNK.unpack(file.read(CHUNK.size).ljust(CHUNK.size, b"\0"))
        if kind != b"BIN\0" or start + binary > size:
            what = f"no binary chunk, or {binary} bytes of it announced in {size}"
            raise UserError(f"{damaged}: {what}")
    if not isinstance(gltf, dict):
        raise UserError(f"{path}: its JSON is no object; damaged")
    return gltf, np.memmap(path, np.uint8, "r", start, (binary,))


def _found(path: Path, gltf: dict) -> Iterator[tuple[dict, np.ndarray]]:
    """(primitive, (4, 4) matrix to the world) of every set of splats in the scene."""
    nodes, scenes = gltf.get("nodes", []), gltf.get("scenes", [])
    roots = _at(scenes, gltf.get("scene", 0)).get("nodes", []) if scenes else range(len(nodes))
    open_, seen = [(node, np.eye(4)) for node in roots], set()
    while open_:
        index, above = open_.pop(0)
        node = _at(nodes, index)
        if index in seen:
            raise UserError(f"{path}: node {index} is there twice in its scene; damaged")
        seen.add(index)
        matrix = above @ _matrix(node)
        open_ += [(child, matrix) for child in node.get("children", [])]
        if "mesh" in node:
            for primitive in _at(gltf["meshes"], node["mesh"])["primitives"]:
                if NAME in primitive.get("extensions", {}):
                    yield primitive, matrix


def _at(items: list, index: object) -> dict:
    if type(index) is not int or not 0 <= index < len(items) or not isinstance(items[index], dict):
        raise ValueError(f"index {str(index)[:40]} of {len(items)}")
    return items[index]


def _matrix(node: dict) -> np.ndarray:
    if "matrix" in node:
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    out = np.eye(4)
    part = lambda name, default: np.array(node.get(name, default), np.float64)  # noqa: E731
    x, y, z, w = base.unit(part("rotation", (0, 0, 0, 1)).reshape(1, 4))[0]
    out[:3, :3] = rotation_matrix(w, x, y, z) * part("scale", (1, 1, 1)).reshape(3)
    out[:3, 3] = part("translation", (0, 0, 0)).reshape(3)
    return out


def _primitive(
    path: Path, gltf: dict, binary: np.ndarray, primitive: dict, matrix: np.ndarray
) -> _Primitive:
    extension = primitive["extensions"][NAME]
    if inner := extension.get("extensions"):
        by = f"compressed by {', '.join(inner)[:80]}, which hardsplat does not read"
        raise UserError(f"{path}: its splats are {by}; take an uncompressed file, or .spz")
    if (kernel := extension.get("kernel", "ellipse")) != "ellipse":
        what = f"its splats have the kernel {str(kernel)[:40]!r}"
        raise UserError(f"{path}: {what}; hardsplat has ellipse alone")
    if (space := extension.get("colorSpace", COLORS)) != COLORS:
        words = f"read as {COLORS}, which may look too dark or too pale"
        log.warning("%s: its colours are %s; they are %s", path, str(space)[:40], words)
    scale = np.cbrt(max(np.linalg.det(matrix[:3, :3]), 0))
    rotation = matrix[:3, :3] / scale if scale > 0 else np.zeros((3, 3))
    rigid = np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-4)
    if not rigid or not np.isfinite(matrix).all():
        what = "a node mirrors, shears or stretches its splats, which splats cannot be"
        raise UserError(f"{path}: {what}; apply its matrix another way first")
    given, attributes = primitive["attributes"], {}
    degree = max((l for l in range(4) if set(sh_names(l)) <= given.keys()), default=-1)
    for name in names(max(degree, 0)):
        if name not in given:
            raise UserError(f"{path}: attribute {name} is missing")
        attributes[name] = _attribute(path, gltf, binary, name, given[name])
    counts = sorted({str(len(values)) for values, _ in attributes.values()})
    if len(counts) > 1:
        raise UserError(f"{path}: its attributes are of {', '.join(counts)} splats; damaged")
    rotation = np.eye(3) if np.allclose(rotation, np.eye(3), atol=1e-7) else rotation
    return _Primitive(attributes, degree, rotation, float(scale), matrix[:3, 3])


def _attribute(
    path: Path, gltf: dict, binary: np.ndarray, name: str, index: object
) -> tuple[np.ndarray, bool]:
    accessor = _at(gltf["accessors"], index)
    width = 4 if name.endswith("ROTATION") else 1 if name.endswith("OPACITY") else 3
    known = accessor.get("componentType") in _TYPES and "sparse" not in accessor
    if _WIDTHS.get(accessor.get("type", "")) != width or not known:
        raise UserError(f"{path}: {name} has accessors of a type that it must not have")
    view = _at(gltf["bufferViews"], accessor.get("bufferView"))
    if view.get("buffer") != 0 or "uri" in _at(gltf["buffers"], 0):
        raise UserError(f"{path}: {name} lies in another file; hardsplat reads one binary chunk")
    dtype = np.dtype(_TYPES[accessor["componentType"]])
    each = width * dtype.itemsize
    offsets = accessor.get("byteOffset", 0), view.get("byteOffset", 0)
    numbers = accessor["count"], *offsets, view["byteLength"], view.get("byteStride", each)
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise UserError(f"{path}: {name} has accessors with numbers {str(numbers)[:80]}; damaged")
    count, offset, view_offset, view_length, stride = numbers
    needed = offset + (count - 1) * stride + each if count else 0
    if stride < each or needed > view_length or view_offset + view_length > len(binary):
        what = f"{name} of {count} splats reaches beyond the {len(binary)} bytes there are"
        raise UserError(f"{path}: truncated, {what}")
    normalized = bool(accessor.get("normalized")) and dtype.kind != "f"
    shape, strides = (count, width), (stride, dtype.itemsize)
    return np.ndarray(shape, dtype, binary, view_offset + offset, strides), normalized


def _floats(stored: np.ndarray, normalized: bool) -> np.ndarray:
    values = stored.astype(np.float32)
    return np.maximum(values / np.iinfo(stored.dtype).max, -1) if normalized else values


def _pieces(primitives: list[_Primitive], degree: int) -> Iterator[Gaussians]:
    for p in primitives:
        for at, n in base.spans(p.count):
            rows = {
                name: _floats(a[at : at + n], share) for name, (a, share) in p.attributes.items()
            }
            sh = np.zeros((n, COEFFICIENTS[degree], 3), np.float32)
            for i, name in enumerate(sh_names(p.degree)):
                sh[:, i] = rows[name]
            quats = np.roll(rows[f"{NAME}:ROTATION"], 1, axis=1)  # glTF has xyzw
            scales, opacities = rows[f"{NAME}:SCALE"], rows[f"{NAME}:OPACITY"][:, 0]
            g = Gaussians(rows["POSITION"], quats, scales, opacities, sh, check=False)
            g = rotated(g, p.rotation)
            with np.errstate(over="ignore", invalid="ignore"):
                scale = np.float32(p.scale)
                means = g.means * scale + p.shift.astype(np.float32)
                yield replace(g, means=means, scales=g.scales * scale, check=False)


_FLOAT, _BYTE, _ARRAY_BUFFER, _POINTS = 5126, 5121, 34962, 0
_MOST = (1 << 32) - 1  # bytes of a GLB


def write(path: Path, splats: SplatStream) -> None:
    """float32 throughout, and COLOR_0 for viewers that know points alone. Raises UserError beyond 4
    GiB, which no GLB can be larger than."""
    position, *others = names(splats.sh_degree)
    sizes = {name: _size(name) for name in (position, "COLOR_0", *others)}
    head = _json(splats, sizes, ([0.0] * 3, [0.0] * 3))
    length = splats.count * sum(sizes.values())
    space = len(head) + 512  # for bounds with more digits
    space += -space % 4
    start = 20 + space + 8
    if start + length > _MOST:
        what = f"{splats.count:,} splats of SH degree {splats.sh_degree} take {length} bytes"
        advice = "lower --sh-degree or --max-splats, or take .spz"
        raise UserError(f"{path}: {what}, a GLB at most 4 GiB; {advice}")
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    with open(path, "wb") as file:
        done = 0
        for g in splats.pieces():
            low, high = np.minimum(low, g.means.min(axis=0)), np.maximum(high, g.means.max(axis=0))
            offset = start
            for width, values in zip(sizes.values(), _values(g)):
                file.seek(offset + done * width)
                file.write(np.ascontiguousarray(values).tobytes())
                offset += splats.count * width
            done += len(g)
        file.seek(0)
        file.write(HEADER.pack(b"glTF", 2, start + length) + CHUNK.pack(space, b"JSON"))
        file.write(_json(splats, sizes, (low.tolist(), high.tolist())).ljust(space))
        file.write(CHUNK.pack(length, b"BIN\0"))


def _size(name: str) -> int:
    """Bytes of a splat; all are multiples of 4, as glTF asks for."""
    return 4 if name in ("COLOR_0", f"{NAME}:OPACITY") else 16 if name.endswith("ROTATION") else 12


def _values(g: Gaussians) -> Iterator[np.ndarray]:
    """In the order of the attributes."""
    yield g.means.astype("<f4")
    rgba = np.concatenate([g.sh[:, 0] * SH_C0 + 0.5, g.opacities[:, None]], axis=1)
    yield to_bytes(rgba * 255)
    yield np.roll(unit(g.quats), -1, axis=1).astype("<f4")
    yield g.scales.astype("<f4")
    yield g.opacities.astype("<f4")
    for i in range(g.sh.shape[1]):
        yield g.sh[:, i].astype("<f4")


def _json(
    splats: SplatStream, sizes: dict[str, int], bounds: tuple[list[float], list[float]]
) -> bytes:
    views, accessors, offset = [], [], 0
    for i, (name, width) in enumerate(sizes.items()):
        size = splats.count * width
        views.append(dict(buffer=0, byteOffset=offset, byteLength=size, target=_ARRAY_BUFFER))
        kind = "VEC4" if width == 16 or name == "COLOR_0" else "SCALAR" if width == 4 else "VEC3"
        accessor: dict = dict(bufferView=i, componentType=_FLOAT, count=splats.count, type=kind)
        if name == "COLOR_0":
            accessor |= dict(componentType=_BYTE, normalized=True)
        if name == "POSITION":
            accessor |= dict(min=bounds[0], max=bounds[1])
        accessors.append(accessor)
        offset += size
    kernel = dict(kernel="ellipse", colorSpace=COLORS, projection="perspective")
    attributes = {name: i for i, name in enumerate(sizes)}
    extensions = {NAME: kernel | dict(sortingMethod="cameraDistance")}
    primitive = dict(attributes=attributes, mode=_POINTS, extensions=extensions)
    asset = dict(version="2.0", generator="hardsplat")
    gltf = dict(
        asset=asset | ({"extras": {"antialiased": True}} if splats.antialiased else {}),
        extensionsUsed=[NAME],
        scene=0,
        scenes=[{"nodes": [0]}],
        nodes=[{"mesh": 0}],
        meshes=[{"primitives": [primitive]}],
        buffers=[{"byteLength": offset}],
        bufferViews=views,
        accessors=accessors,
    )
    return json.dumps(gltf, separators=(",", ":")).encode()
