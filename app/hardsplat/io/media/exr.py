"""OpenEXR pictures for display: linear light, cut to 0..1, through the sRGB transfer function."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError, reason

_UNDOUBTED, _DENSEST = 1 << 20, 1000  # pixels; of a byte of larger pictures, as deflate packs them


def read_exr(path: str | Path) -> np.ndarray:
    """(H, W, 3) uint8, or (H, W, 4) premultiplied where a pixel is not opaque, of the channels R,
    G, B and A, or Y alone.

    Values are taken as linear light in Rec. 709 primaries: cut to 0..1 (NaN becomes 0), then
    encoded as sRGB (IEC 61966-2-1), which is the tone of any 8-bit picture. Brighter light than 1
    is lost. Raises UserError where the package OpenEXR is missing or the file cannot be read.
    """
    try:
        import OpenEXR
    except ImportError:
        need = "OpenEXR files need one more package: pip install OpenEXR"
        raise UserError(f"{path}: {need}") from None
    if not Path(path).is_file():
        raise UserError(f"{path}: image not found")
    try:
        with OpenEXR.File(str(path), header_only=True) as file:
            (x, y), (right, bottom) = file.header()["dataWindow"]
            width, height = int(right) - int(x) + 1, int(bottom) - int(y) + 1
            if not 0 < width * height <= max(_UNDOUBTED, _DENSEST * os.path.getsize(path)):
                raise ValueError(f"it announces {width}x{height} pixels, too many for its bytes")
        with OpenEXR.File(str(path), separate_channels=True) as file:
            found = file.channels()
            channels = {name: np.asarray(found[name].pixels, np.float32) for name in found}
    except Exception as error:  # the binding raises what its C++ does
        raise UserError(f"{path}: not a readable OpenEXR file: {reason(error)}") from None
    names = next((names for names in ("RGB", "Y") if set(names) <= channels.keys()), None)
    if names is None or len({c.shape for c in channels.values() if c.ndim == 2}) != 1:
        there = f"has the channels {', '.join(sorted(channels))}"
        raise UserError(f"{path}: {there}; a picture has R, G and B, or Y")
    light = np.stack([channels["RGB"[i] if names == "RGB" else "Y"] for i in range(3)], axis=2)
    alpha = _unit(channels["A"])[..., None] if "A" in channels else np.ones((1, 1, 1), np.float32)
    # OpenEXR's colour is premultiplied too
    color = to_srgb(_unit(light / np.maximum(alpha, 1e-6))) * alpha
    if (alpha >= 1).all():
        return _bytes(color)
    return np.concatenate([_bytes(color), _bytes(alpha)], axis=2)


def to_srgb(linear: np.ndarray) -> np.ndarray:
    """Light in 0..1 -> the value that a display takes, IEC 61966-2-1."""
    above = 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, above)


def _unit(values: np.ndarray) -> np.ndarray:
    return np.clip(np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=0.0), 0, 1)


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.rint(255 * values).astype(np.uint8)
