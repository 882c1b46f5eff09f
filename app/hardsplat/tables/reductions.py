"""How the backward draw sums gradients, and how it adds them to memory."""

from dataclasses import dataclass

# How the backward draw sums gradients before its atomics: files that fill <reduce>.


@dataclass(frozen=True)
class Reduction:
    slot: str
    threshold: bool  # takes the constant THRESHOLD
    quads: bool  # has a <quads> slot
    needs: tuple[str, ...]
    note: str


_SUMS = ("subgroup_arithmetic", "subgroup_quad")

# The fastest first, of a backward draw of 2x2 blocks on an H200.
# fmt: off
REDUCTIONS = {
    "hybrid": Reduction("reduce/hybrid.glsl", True, True, _SUMS,
                        "whole subgroup where it holds one splat, else quad by quad"),
    "quad": Reduction("reduce/quad.glsl", False, True, _SUMS,
                      "four fragments to one; with lists, four blocks"),
    "subgroup": Reduction("reduce/subgroup.glsl", False, False, ("subgroup_arithmetic",),
                          "whole subgroup where it holds one splat, else atomics"),
    "atomic": Reduction("reduce/atomic.glsl", False, False, (),
                        "nine atomics a fragment: the baseline"),
}
# fmt: on


# How gradients are added to memory: files that fill <atomics>.


@dataclass(frozen=True)
class Atomics:
    slot: str
    needs: tuple[str, ...]
    note: str


# fmt: off
ATOMICS = {
    "native": Atomics("reduce/atomics_native.glsl", ("float_atomics",),
                      "float atomic add of the device"),
    "cas": Atomics("reduce/atomics_cas.glsl", ("swap_atomics",),
                   "compare and swap: runs everywhere, slower where splats are contended"),
}
