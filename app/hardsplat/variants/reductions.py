"""How the backward draw sums gradients before its atomics: files that fill <reduce>."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    slot: str
    spec: tuple[str, ...]  # specialization constants it takes
    quads: bool  # has a <quads> slot
    needs: tuple[str, ...]
    note: str


_SUMS = ("subgroup_arithmetic", "subgroup_quad")

REDUCTIONS = {  # the fastest first, of a backward draw of 2x2 blocks on an H200
    "hybrid": Reduction("reduce/hybrid.glsl", ("THRESHOLD",), True, _SUMS, "whole subgroup where it holds one splat, else quad by quad"),
    "quad": Reduction("reduce/quad.glsl", (), True, _SUMS, "four fragments to one"),
    "subgroup": Reduction("reduce/subgroup.glsl", (), False, ("subgroup_arithmetic",), "whole subgroup where it holds one splat, else atomics"),
    "atomic": Reduction("reduce/atomic.glsl", (), False, (), "nine atomics a fragment: the baseline"),
}
