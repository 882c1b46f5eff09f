"""How the backward draw sums gradients before its atomics: files that fill <reduce>."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    slot: str
    spec: tuple[str, ...]  # specialization constants it takes
    needs: tuple[str, ...]
    note: str


REDUCTIONS = {
    "hybrid": Reduction(
        "reduce/hybrid.glsl", ("THRESHOLD",), ("subgroup_arithmetic", "subgroup_quad"), "whole subgroup where it holds one splat, else quad by quad"
    ),
    "quad": Reduction("reduce/quad.glsl", (), ("subgroup_quad",), "four fragments to one"),
    "subgroup": Reduction("reduce/subgroup.glsl", (), ("subgroup_arithmetic",), "whole subgroup where it holds one splat, else atomics"),
    "atomic": Reduction("reduce/atomic.glsl", (), (), "nine atomics a fragment: the baseline"),
}
