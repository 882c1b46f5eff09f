"""How Adam's moments lie in memory: files that fill <moments>. `auto` takes the first that the device runs."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MomentFormat:
    slot: str
    nbytes: int  # of a number
    needs: tuple[str, ...]
    note: str


MOMENT_FORMATS = {
    "bfloat16": MomentFormat("optim/moments_bfloat16.glsl", 2, ("storage_16bit",), "half the memory, 8 bits of mantissa, stochastic rounding"),
    "float32": MomentFormat("optim/moments_float32.glsl", 4, (), "as computed"),
}


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 -> the bits of the nearest bfloat16, ties to even, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> 16 & 1))
    return (np.where(np.isnan(values), bits | 1 << 22, rounded) >> 16).astype(np.uint16)  # a NaN stays one


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 that these uint16 are, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
