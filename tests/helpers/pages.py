"""What decode.js does in a browser, in Python."""

import zlib

import numpy as np

from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.page.pack import CHUNK, LARGEST, POSITION_BITS, Packed, per_coefficient


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


def _between(stored: np.ndarray, ends) -> np.ndarray:
    return ends[0] + stored * ((ends[1] - ends[0]) / 255)


def _plus_green(colors: np.ndarray) -> np.ndarray:
    return colors + colors[..., 1:2] * np.array([1, 0, 1], np.uint8)
