"""Adaptive density control on the GPU: splats clone, split and die in place, the number of them
never leaves the GPU.

Kerbl et al. 2023, section 5.2, with the semantics of Inria's `densify_and_prune`. Deterministic:
ranks come from prefix sums, random numbers from a hash of (seed, step, splat).

Inria's code prunes by screen radius right after growth has cleared all radii, which disables that
test, and gsplat leaves it out: so does the default here. `prune_screen = 20`, as published, looks
at the radius since the last densification; splats made just now have none yet. It takes the large
splats of the background again and again (docs/RESULTS.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.tables import quantities
from hardsplat.train.strategies.refine import (
    GROUP,
    RANKS,
    SCAN,
    pruning_passes,
    record_pruning,
    record_reset,
    reset_pass,
    resize,
    slots_of,
    splat_planes,
)
from hardsplat.train.strategies.strategy import Growing, Record, Refining


class Published(Refining):
    statistics = resets = True
    follows = ("grow_stats",)

    def passes(self, moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        planes = splat_planes()
        return (
            ComputePass(
                "densify decide",
                "densify/published/decide.comp",
                reads=("refine_settings", "counts", "grow_stats"),
                writes=RANKS,
            ),
            SCAN,
            ComputePass(
                name="densify grow",
                shader="densify/published/grow.comp",
                reads=("refine_settings", "frame", "counts", *RANKS, *planes),
                writes=("grow_stats", *planes),
                slots=slots_of(moments),
            ),
            resize(grown=True),
            ComputePass(
                name="densify survey",
                shader="densify/published/survey.comp",
                reads=("refine_settings", "frame", "counts", "grow_stats", *quantities.values()),
                writes=RANKS,
            ),
            *pruning_passes(moments, "grow_stats", "densify/published/statistics.glsl", ages=False),
            reset_pass(moments),
        )

    def recordings(self) -> Mapping[str, Record]:
        return {"densify": record_densify, "reset": record_reset, "plan": record_plan}

    def growth(self, session: Growing) -> tuple[int, int]:
        n = session.count()
        return n, n + session.planned(n)


def record_plan(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """grow_stats -> flag_sums, whose element ceil(splats / GROUP) is then the number of splats that
    record_densify would add."""
    recorder.run(run["densify decide"], indirect="splat_groups")
    recorder.run(run["densify scan"], threads=(GROUP,))


def record_densify(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Parameters, moments, grow_stats, counts.splats and indirect.splat_groups (as a step leaves
    them) -> the same, grown and pruned.

    Statistics start anew. counts.wanted is the number that growth asked for; what found no room
    within counts.capacity stayed as it was.
    """
    record_plan(recorder, run)
    recorder.run(run["densify grow"], indirect="splat_groups")
    recorder.run(run["densify grown"], threads=(1,))
    recorder.run(run["densify survey"], indirect="splat_groups")
    record_pruning(recorder, run)
