"""Pages read back: what decode.js does in a browser, in Python."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.page.pack import CHUNK, LARGEST, POSITION_BITS, Packed, per_coefficient


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
    share = (low + 256.0 * high).T / (2**POSITION_BITS - 1)
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
