"""How Adam's moments lie in memory: files that fill <moments>. `auto` takes the first that the device runs."""

from dataclasses import dataclass


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
