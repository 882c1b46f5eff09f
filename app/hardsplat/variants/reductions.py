"""How the backward draw sums gradients before its atomics: files that fill <reduce>."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    slot: str
    adder: str | None  # file that fills its <adder>: who adds what several lanes summed
    spec: tuple[str, ...]  # specialization constants it takes
    quads: bool  # has a <quads> slot
    needs: tuple[str, ...]
    note: str
    any_number: bool = True  # sums as many numbers as it is given, not nine alone

    @property
    def slots(self) -> dict[str, str]:
        return {"reduce": self.slot} | ({"adder": self.adder} if self.adder else {})


_ONE, _MANY = "reduce/adder_one_lane.glsl", "reduce/adder_many_lanes.glsl"
_SUMS = ("subgroup_arithmetic", "subgroup_quad")
_HYBRID = "reduce/hybrid.glsl"

REDUCTIONS = {  # the fastest first, of a backward draw of 2x2 blocks on an H200
    "hybrid": Reduction(_HYBRID, _ONE, ("THRESHOLD",), True, _SUMS, "whole subgroup where it holds one splat, else quad by quad"),
    "ballot": Reduction("reduce/ballot.glsl", _ONE, ("THRESHOLD",), True, _SUMS, "splat by splat where a subgroup holds several"),
    "partitioned": Reduction("reduce/partitioned.glsl", _ONE, ("THRESHOLD",), True, ("subgroup_partitioned", *_SUMS), "all splats of a subgroup at once"),
    "scatter": Reduction(
        "reduce/scatter.glsl", _MANY, ("THRESHOLD",), True, ("subgroup_shuffle", *_SUMS), "as hybrid_lanes, summed by halving: each lane ends with one of nine sums", False
    ),
    "quad": Reduction("reduce/quad.glsl", _ONE, (), True, _SUMS, "four fragments to one"),
    "hybrid_lanes": Reduction(_HYBRID, _MANY, ("THRESHOLD",), True, _SUMS, "as hybrid, a sum's atomics spread over its lanes"),
    "subgroup": Reduction("reduce/subgroup.glsl", _ONE, (), False, ("subgroup_arithmetic",), "whole subgroup where it holds one splat, else atomics"),
    "atomic": Reduction("reduce/atomic.glsl", None, (), False, (), "nine atomics a fragment: the baseline"),
}
