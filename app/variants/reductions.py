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


    @property
    def slots(self) -> dict[str, str]:
        return {"reduce": self.slot} | ({"adder": self.adder} if self.adder else {})


_ONE, _MANY = "reduce/one_lane.glsl", "reduce/many_lanes.glsl"
_SUMS = ("subgroup_arithmetic", "subgroup_quad")
_PARTS = ("subgroup_partitioned", *_SUMS)
_HYBRID, _BALLOT, _PARTITIONED = "reduce/hybrid.glsl", "reduce/ballot.glsl", "reduce/partitioned.glsl"

REDUCTIONS = {
    "hybrid": Reduction(_HYBRID, _ONE, ("THRESHOLD",), True, _SUMS, "whole subgroup where it holds one splat, else quad by quad"),
    "hybrid_lanes": Reduction(_HYBRID, _MANY, ("THRESHOLD",), True, _SUMS, "the same, a sum's atomics spread over its lanes"),
    "scatter": Reduction(
        "reduce/scatter.glsl", _MANY, ("THRESHOLD",), True, ("subgroup_shuffle", *_SUMS), "as hybrid_lanes, summed by halving: each lane ends with one of nine sums"
    ),
    "ballot": Reduction(_BALLOT, _ONE, ("THRESHOLD",), True, _SUMS, "splat by splat where a subgroup holds several"),
    "ballot_lanes": Reduction(_BALLOT, _MANY, ("THRESHOLD",), True, _SUMS, "the same, a sum's atomics spread over its lanes"),
    "partitioned": Reduction(_PARTITIONED, _ONE, ("THRESHOLD",), True, _PARTS, "all splats of a subgroup at once"),
    "partitioned_lanes": Reduction(_PARTITIONED, _MANY, ("THRESHOLD",), True, _PARTS, "the same, a sum's atomics spread over its lanes"),
    "quad": Reduction("reduce/quad.glsl", _ONE, (), True, _SUMS, "four fragments to one"),
    "subgroup": Reduction("reduce/subgroup.glsl", _ONE, (), False, ("subgroup_arithmetic",), "whole subgroup where it holds one splat, else atomics"),
    "atomic": Reduction("reduce/atomic.glsl", None, (), False, (), "nine atomics a fragment: the baseline"),
}
