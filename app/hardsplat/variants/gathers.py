"""How stochastic gradients sum the differences of two images over the pixels of a splat."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gather:
    draws: bool  # by a draw of the hardware rasterizer
    needs: tuple[str, ...]
    note: str


GATHERS = {
    "rows": Gather(False, (), "running sums along pixel rows, two reads a row of a splat: no atomics, the same bits every time"),
    "draw": Gather(True, (), "a third draw, order-free, through --reduction and --atomics (hardware rasterizer)"),
}
