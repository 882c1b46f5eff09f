"""Splats as the bytes inside a page, and back: `unpack` does what decode.js does in a browser.

The data are a zlib stream of these bytes, for N splats in Morton order, of SH degree d with K = (d
+ 1)^2 - 1 higher coefficients:

    bounds     ceil(N / CHUNK) x 6 float32, little endian: lowest and highest x, y, z of the splats
        of a chunk
    position   6 planes of N bytes: low bytes of x, y, z, then high bytes; 0 .. 2^POSITION_BITS - 1
        between the bounds of its chunk
    scale      3 planes: logarithm of the scale, 0 .. 255 between the ends that the header has
    rotation   3 planes: x, y, z of the unit quaternion, 128 + 127 x / LARGEST; w is the positive
        rest
    opacity    1 plane: 0 .. 255 for 0 .. 1
    colour     3 planes: 0.5 + SH_C0 times the constant coefficient, 0 .. 255 between the ends that
        the header has
    sh         3 K planes, coefficient by coefficient: 128 + coefficient / step of its degree

Red and blue, of colour and sh, are stored less green, modulo 256: grey splats are then zeros, which
deflate well.

A rotation has 24 names, since the axes of a Gaussian may be exchanged and reversed. The name next
to no rotation is stored: no component but w can then pass sin(22.5 degrees), so that a byte holds
it as finely as ten bits hold a component that may be anything.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.deflate import deflated
from hardsplat.base.errors import UserError
from hardsplat.base.parallel import in_blocks
from hardsplat.model import chunks, morton
from hardsplat.model.camera import Camera, rotation_matrix
from hardsplat.model.chunks import CHUNK
from hardsplat.model.gaussians import SH_C0, Gaussians

POSITION_BITS = 14
_STEPS = 2**POSITION_BITS - 1
LARGEST = float(np.sin(np.pi / 8))  # of a component of the stored rotations, but for w
SH_STEP = 1 / 64  # of an SH coefficient, where 8 bits of it hold all there are
MOST_SPLATS = 2048 * 2048  # texels of the largest texture that every WebGL2 has
# natural logarithms; smaller scales than that below the largest are rounded up
_DEPTH_OF_SCALES = 16.0
_LEVEL = 6  # of zlib; 9 saves a further hundredth and takes six times as long
_PIECE = 1 << 18  # bytes that a thread compresses at a time
_BLOCK = 1 << 14  # splats that temporary arrays are made for at a time


@dataclass(frozen=True)
class Packed:
    """header: what the reader needs besides, as JSON holds it. data: the zlib stream."""

    header: dict
    data: bytes


def pack(gaussians: Gaussians) -> Packed:
    """Quantizes 1 to MOST_SPLATS splats, whose numbers must be finite. Raises ValueError for
    others."""
    n, degree = len(gaussians), gaussians.sh_degree
    if not 0 < n <= MOST_SPLATS:
        raise ValueError(f"a page holds 1 to {MOST_SPLATS} splats, got {n}")
    order, copies = _ordered(gaussians)
    n, gaussians = len(order), gaussians[order]
    bounds, positions = _positions(gaussians.means)
    quats, scales = smallest_rotations(gaussians.quats, gaussians.scales)
    with np.errstate(divide="ignore"):
        logs = np.log(scales.astype(np.float64))
    colors = 0.5 + SH_C0 * gaussians.sh[:, 0].astype(np.float64)
    rest = gaussians.sh[:, 1:]
    scale_ends = _scale_ends(logs)
    color_ends = _ends(np.quantile(colors, [0.0005, 0.9995]))
    steps = _sh_steps(rest, degree)
    sh = np.rint(rest / per_coefficient(steps).astype(np.float32)[:, None])
    sh = np.clip(128 + sh, 0, 255).astype(np.uint8)
    planes = [
        (positions & 255).astype(np.uint8),
        (positions >> 8).astype(np.uint8),
        _bytes(logs, scale_ends),
        (128 + np.rint(quats[:, 1:] * (127 / LARGEST))).astype(np.uint8),
        np.where(copies, 0, np.maximum(_bytes(gaussians.opacities[:, None], (0, 1)), 1)),
        _less_green(_bytes(colors, color_ends)),
        _less_green(sh).reshape(n, -1),
    ]
    data = b"".join([bounds.astype("<f4").tobytes(), *(plane.T.tobytes() for plane in planes)])
    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    stream = b"\x78\x9c", *deflated(pieces, _LEVEL), zlib.adler32(data).to_bytes(4)
    header = {"splats": n, "degree": degree, "scale": list(scale_ends), "color": list(color_ends)}
    return Packed(header | {"sh": steps, "bytes": len(data)}, b"".join(stream))


def _ordered(gaussians: Gaussians) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of the page, and which of them are copies that cannot be seen, (n,) and (n,
    1)."""
    order = morton.order(gaussians.means)
    small = np.sort(gaussians.scales, axis=1)[:, 1]
    ends = chunks.runs(np.take(gaussians.means, order, axis=0), small[order], np.full(3, _STEPS))
    rows, copies = chunks.filled(ends)
    if len(rows) > MOST_SPLATS:  # there is no room for copies
        rows, copies = np.arange(len(order)), np.zeros(len(order), bool)
    return order[rows], copies[:, None]


def smallest_rotations(quats: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, 4) unit quaternions and (N, 3) scales of the same Gaussians, with their axes named so
    that w is the largest it can be, and positive."""
    out, renamed = np.empty((len(quats), 4), np.float32), np.empty_like(scales)
    turns = _turns_of_a_cube()
    # the old axis that each new axis lies along
    names = np.abs(rotation_matrix(*turns.T)).argmax(axis=0).T

    def rename(part: slice) -> None:
        q = quats[part] / np.linalg.norm(quats[part], axis=1, keepdims=True)
        # w of q times each of them
        real = q @ (turns * np.array([1, -1, -1, -1])).T.astype(np.float32)
        best = np.abs(real).argmax(axis=1)
        turned = _product(q.T, turns.astype(np.float32)[best].T)
        out[part] = np.where(turned[0] < 0, -turned, turned).T
        renamed[part] = np.take_along_axis(scales[part], names[best], axis=1)

    in_blocks(len(quats), _BLOCK, rename)
    return out, renamed


def _turns_of_a_cube() -> np.ndarray:
    """(24, 4) unit quaternions wxyz that bring a cube onto itself: none, about its faces, its
    edges and its corners."""
    signs = np.array(list(itertools.product((-1, 0, 1), repeat=4)), np.float64)
    leads = signs[np.arange(len(signs)), (signs != 0).argmax(axis=1)] > 0  # one of q and -q
    turns = signs[leads & (np.count_nonzero(signs, axis=1) != 3)]
    return turns / np.linalg.norm(turns, axis=1, keepdims=True)


def _product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(4, N) of quaternions p and q, (4, N)."""
    (a, b, c, d), (w, x, y, z) = p, q
    return np.array(
        (
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        )
    )


def _positions(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of chunks (C, 6) float32, and (N, 3) uint16 between them."""
    n, count = len(means), -(-len(means) // CHUNK)
    padded = np.pad(means, ((0, count * CHUNK - n), (0, 0)), mode="edge").astype(np.float64)
    padded = padded.reshape(count, CHUNK, 3)
    low, high = padded.min(axis=1, keepdims=True), padded.max(axis=1, keepdims=True)
    share = (padded - low) / np.where(high > low, high - low, 1)
    steps = np.rint(share * _STEPS).astype(np.uint16)
    return np.concatenate([low, high], axis=1).reshape(count, 6), steps.reshape(-1, 3)[:n]


def _scale_ends(logs: np.ndarray) -> tuple[float, float]:
    """Smallest and largest logarithm that is told apart. A scale of 0 is a logarithm of minus
    infinity."""
    finite = logs[np.isfinite(logs)]
    if not len(finite):
        return _ends((-23.0, -23.0))  # all are points
    return _ends((max(np.quantile(finite, 0.001), finite.max() - _DEPTH_OF_SCALES), finite.max()))


def _ends(ends) -> tuple[float, float]:
    return float(ends[0]), float(max(ends[1], ends[0] + 1e-6))


def _bytes(values: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    steps = (np.clip(values, *ends) - ends[0]) * (255 / (ends[1] - ends[0]))
    return np.rint(steps).astype(np.uint8)


def _sh_steps(rest: np.ndarray, degree: int) -> list[float]:
    """Step of the coefficients of degrees 1 to `degree`."""
    bands = [rest[:, l * l - 1 : (l + 1) ** 2 - 1] for l in range(1, degree + 1)]
    return [max(SH_STEP, float(np.abs(band).max()) / 127) for band in bands]


def per_coefficient(steps: list[float]) -> np.ndarray:
    """(K,) the step of every higher coefficient from those of the degrees."""
    return np.repeat(np.array(steps, np.float64), [2 * l + 1 for l in range(1, len(steps) + 1)])


def _less_green(colors: np.ndarray) -> np.ndarray:
    """(..., 3) uint8, red and blue less green, modulo 256."""
    return colors - colors[..., 1:2] * np.array([1, 0, 1], np.uint8)


def read_page(path: Path) -> tuple[Gaussians, list[Camera]]:
    """The splats of a page, or of the viewer within a report, and its cameras. Raises UserError
    where it has none."""
    text = path.read_text(encoding="utf-8", errors="replace")
    found = [re.search(rf'class="hs-{part}">(.*?)</script>', text) for part in ("header", "data")]
    if not all(found):
        raise UserError(f"{path}: has no splats in it")
    header, data = (match[1] for match in found if match)
    about = json.loads(header)
    return unpack(Packed(about, base64.b64decode(data))), [_camera(c) for c in about["cameras"]]


def _camera(entry: dict[str, Any]) -> Camera:
    fx, fy, cx, cy = entry["K"]
    w2c = np.concatenate([np.reshape(entry["w2c"], (3, 4)), [[0, 0, 0, 1]]])
    return Camera(w2c, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]), *entry["size"])


def unpack(packed: Packed) -> Gaussians:
    """Returns what the page draws, in its order."""
    header, data = packed.header, np.frombuffer(zlib.decompress(packed.data), np.uint8)
    n, degree = header["splats"], header["degree"]
    coefficients, chunks = (degree + 1) ** 2 - 1, -(-n // CHUNK)
    bounds = data[: 24 * chunks].view("<f4").reshape(chunks, 2, 3).astype(np.float64)
    bounds = bounds.repeat(CHUNK, axis=0)[:n]
    planes = data[24 * chunks :].reshape(-1, n)
    low, high, scale, rotation, opacity, color, sh = np.split(planes, np.cumsum([3, 3, 3, 3, 1, 3]))
    share = (low + 256.0 * high).T / _STEPS
    means = bounds[:, 0] + share * (bounds[:, 1] - bounds[:, 0])
    xyz = (rotation.T - 128.0) * (LARGEST / 127)
    quats = np.column_stack([np.sqrt(np.maximum(1 - (xyz**2).sum(axis=1), 0)), xyz])
    colors = _between(_plus_green(color.T), header["color"])
    rest = _plus_green(sh.T.reshape(n, coefficients, 3)) - 128.0
    rest = rest * per_coefficient(header["sh"])[:, None]
    coefficients = np.concatenate([(colors[:, None] - 0.5) / SH_C0, rest], axis=1)
    scales = np.exp(_between(scale.T, header["scale"]))
    return Gaussians(means, quats, scales, opacity[0] / 255, coefficients)


def _between(stored: np.ndarray, ends: list[float]) -> np.ndarray:
    return ends[0] + stored * ((ends[1] - ends[0]) / 255)


def _plus_green(colors: np.ndarray) -> np.ndarray:
    return colors + colors[..., 1:2] * np.array([1, 0, 1], np.uint8)
