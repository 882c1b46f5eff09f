"""Growth towards a number of splats that is known from the start, along a curve over time: candidates are drawn, and split along their longest axis.

Deng et al. 2025, "Improving Densification in 3D Gaussian Splatting for High-Fidelity Rendering" (Improved-GS, arXiv 2508.12313).

Every `score_every` steps two more backward draws of the step's view find what each splat is to be judged by: the absolute gradients of its mean by single pixels, which
do not cancel where pixels pull in different directions, and T alpha of its pixels, weighted by the strength of edges in the photograph and by the error. Between
refinements a share of these statistics stays, so that a splat is judged by more views than were drawn since the last one. Ordinary steps keep no statistics.

At a refinement, splats whose mean absolute gradient is large enough are candidates; as many of them are drawn, with probabilities by weight, as the budget has room for by
now, and split. The host waits for nothing: it knows the budget.
"""

from __future__ import annotations

from collections.abc import Mapping

from hardsplat import trained
from hardsplat.config import TrainConfig
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.rasterizer import Rasterizer
from hardsplat.train.refine import GROUP, RANKS, SCAN, pruning_passes, record_pruning, record_reset, reset_pass, resize, slots_of, splat_row
from hardsplat.train.strategies.strategy import Growing, Record, Refining

_IN_HOLES = {"tickets": "holes"}
_TAKEN = ("camera", "counts", "seen", "colors2d", "d_splats2d", "grow_stats")


class Budget(Refining):
    scores = resets = True

    def passes(self, moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        row = splat_row()
        return (
            ComputePass("weigh pixels", "budget/weigh_pixels.comp", ("target", "photos", "camera", "frame"), ("weights",), {"PHOTO_BYTES": photo_bytes}),
            *(ComputePass(f"take {name}", "budget/take.comp", _TAKEN, ("d_splats2d", "grow_stats"), {"ABSOLUTE": name == "absolute"}) for name in ("absolute", "weighted")),
            ComputePass(
                "densify tickets", "budget/tickets.comp", ("refine_settings", "frame", "counts", "grow_stats", "ticket_counts"), ("tickets", "ticket_counts"), bind=_IN_HOLES
            ),
            ComputePass("densify admit", "budget/admit.comp", ("refine_settings", "frame", "counts", "ticket_counts"), ("ticket_counts", "admitted")),
            ComputePass("densify choose", "budget/choose.comp", ("counts", "tickets", "admitted"), RANKS, bind=_IN_HOLES),
            SCAN,
            ComputePass(
                name="densify split", shader="budget/split.comp", reads=("refine_settings", "counts", *RANKS, *row), writes=("grow_stats", *row), slots=slots_of(moments)
            ),
            resize(grown=True),
            ComputePass("densify survey", "budget/survey.comp", reads=("refine_settings", "counts", *trained.values()), writes=RANKS),
            *pruning_passes(moments),
            reset_pass(moments),
        )

    def recordings(self) -> Mapping[str, Record]:
        return {"densify": record_densify, "reset": record_reset}

    def growth(self, session: Growing) -> tuple[int, int]:
        wanted = max(session.bound, target(session.config, session.step))
        if wanted <= session.capacity:
            return session.bound, wanted
        n = session.count()
        return n, min(wanted, 2 * n)

    def scored(self, config: TrainConfig, step: int) -> bool:
        begin = config.refine_start_iter - config.refine_every
        return begin <= step < min(config.refine_stop_iter, config.max_steps) and step % config.score_every == config.score_every - 1

    def record_scores(self, recorder: Recorder, run: Mapping[str, Pipeline], raster: Rasterizer) -> None:
        recorder.run(run["weigh pixels"], threads=(raster.width, raster.height))
        for score in ("absolute", "weighted"):
            raster.record_score(recorder, score)
            recorder.run(run[f"take {score}"], indirect="splat_groups")


def budget_of(config: TrainConfig) -> int:
    """Splats at the end of growth."""
    return config.cap_max or 1_000_000


def target(config: TrainConfig, step: int) -> int:
    """Splats that there may be after so many steps, as budget/admit.comp has it, or a few more."""
    progress = (step - config.refine_start_iter) / max(config.refine_stop_iter - config.refine_start_iter, 1)
    return int(budget_of(config) * min(max(progress, 0), 1) ** 0.5) + 1


def record_densify(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Parameters, moments, grow_stats, counts.splats and indirect.splat_groups (as a step leaves them) -> the same, grown and pruned."""
    recorder.run(run["densify tickets"], indirect="splat_groups")
    recorder.run(run["densify admit"], threads=(GROUP,))
    recorder.run(run["densify choose"], indirect="splat_groups")
    recorder.run(run["densify scan"], threads=(GROUP,))
    recorder.run(run["densify split"], indirect="splat_groups")
    recorder.run(run["densify grown"], threads=(1,))
    recorder.run(run["densify survey"], indirect="splat_groups")
    record_pruning(recorder, run)
