"""Writes splats as binary glTF, see app/hardsplat/io/formats/glb.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.formats.base import SplatStream, to_bytes, unit
from hardsplat.io.formats.glb import CHUNK, COLORS, HEADER, NAME, names
from hardsplat.model.gaussians import SH_C0, Gaussians

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
