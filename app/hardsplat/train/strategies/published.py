"""Adaptive density control on the GPU: splats clone, split and die in place, the number of them
never leaves the GPU.

Kerbl et al. 2023, section 5.2, with the semantics of Inria's `densify_and_prune`. Deterministic:
ranks come from prefix sums, random numbers from a hash of (seed, step, splat).

Inria's code prunes by screen radius right after growth has cleared all radii, which disables that
test, and gsplat leaves it out: so does PRUNE_SCREEN here. The published test, of 20 px, looks at
the radius since the last densification; splats made just now have none yet. It takes the large
splats of the background again and again (docs/results/quality.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.tables import quantities
from hardsplat.train.strategies.strategy import (
    PRUNING,
    RANKS,
    RESET,
    SCAN,
    Growing,
    Refining,
    pruning_passes,
    reset_pass,
    resize,
    slots_of,
    splat_planes,
)

# leaves in element ceil(splats / GROUP) of flag_sums how many splats growth would add
_PLAN = ("densify decide", "densify scan")


class Published(Refining):
    grows = resets = by_extent = True
    statistics = ("grow_stats",)
    # "densify" clears the statistics. counts.wanted is then the number that growth asked for; what
    # found no room within counts.capacity stayed as it was
    actions: ClassVar = {
        "densify": (*_PLAN, "densify grow", "densify grown", "densify survey", *PRUNING),
        "reset": RESET,
        "plan": _PLAN,
    }

    @staticmethod
    def passes(moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        folder, planes = "densify/published", splat_planes()
        seen = ("refine_settings", "frame", "counts")
        decided, slots = ("refine_settings", "counts", "grow_stats"), slots_of(moments)
        grown, left = (*seen, *RANKS, *planes), (*seen, "grow_stats", *quantities.values())
        written = ("grow_stats", *planes)
        return (
            ComputePass("densify decide", f"{folder}/decide.comp", decided, RANKS),
            SCAN,
            ComputePass("densify grow", f"{folder}/grow.comp", grown, written, slots=slots),
            resize(grown=True),
            ComputePass("densify survey", f"{folder}/survey.comp", left, RANKS),
            *pruning_passes(moments, "grow_stats", f"{folder}/statistics.glsl", ages=False),
            reset_pass(moments),
        )

    def growth(self, step: int, splats: Growing, planned: Callable[[int], int]) -> int:
        n = splats.count()
        return n + planned(n)
