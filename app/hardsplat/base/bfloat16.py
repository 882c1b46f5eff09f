"""Numbers of 16 bits with the exponent of float32, as Adam's moments are stored."""

from __future__ import annotations

import numpy as np


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 -> the bits of the nearest bfloat16, ties to even, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> 16 & 1))
    kept = np.where(np.isnan(values), bits | 1 << 22, rounded)  # a NaN stays one
    return (kept >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The float32 that these uint16 are, exactly. out: where to, of their shape and contiguous."""
    out = np.empty(bits.shape, np.float32) if out is None else out
    np.left_shift(bits, 16, out=out.view(np.uint32), dtype=np.uint32)
    return out
