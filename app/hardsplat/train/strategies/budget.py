"""Growth towards a number of splats that is known from the start, along a curve over time:
candidates are drawn, and split along their longest axis.

Deng et al. 2025, "Improving Densification in 3D Gaussian Splatting for High-Fidelity Rendering"
(Improved-GS, arXiv 2508.12313).

Every `score_every` steps two more backward draws of the step's view find what each splat is to be
judged by: the absolute gradients of its mean by single pixels, which do not cancel where pixels
pull in different directions, and T alpha of its pixels, weighted by the strength of edges in the
photograph and by the error. Between refinements a share of these statistics stays, so that a splat
is judged by more views than were drawn since the last one. Ordinary steps keep no statistics.

At a refinement, splats whose mean absolute gradient is large enough are candidates; as many of them
are drawn, with probabilities by weight, as the budget has room for by now, and split. The host
waits for nothing: it knows the budget.

With `prune_to`, splats are thinned out after growth, in THINNINGS steps: those go that showed least
of themselves, and least where the photographs have edges, in the views scored since the last time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.model.camera import Camera
from hardsplat.raster.core.protocols import Rasterizer
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.train.strategies.refine import (
    GROUP,
    RANKS,
    SCAN,
    THINNINGS,
    pruning_passes,
    record_pruning,
    record_reset,
    reset_pass,
    resize,
    slots_of,
    splat_planes,
)
from hardsplat.train.strategies.strategy import Growing, Record, Refining

SPLATS_A_PHOTOGRAPH, PIXELS_A_SPLAT, FEWEST, MOST = (
    3_900,
    10,
    20_000,
    4_000_000,
)  # where --cap-max leaves the budget to the scene
_IN_HOLES = {"tickets": "holes"}
_TAKEN = ("camera", "counts", "seen", "d_splats2d", "score_stats")


class Budget(Refining):
    scores = resets = True
    follows = ("score_stats",)

    def passes(self, moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        planes = splat_planes()
        return (
            ComputePass(
                "weigh pixels",
                "densify/budget/weigh_pixels.comp",
                ("target", "photos", "camera", "frame"),
                ("weights",),
                {"PHOTO_BYTES": photo_bytes},
            ),
            *(
                ComputePass(
                    f"take {name}",
                    "densify/budget/take.comp",
                    _TAKEN,
                    _TAKEN[-2:],
                    {"ABSOLUTE": name == "absolute"},
                )
                for name in ("absolute", "weighted")
            ),
            ComputePass(
                name="densify tickets",
                shader="densify/budget/tickets.comp",
                reads=("refine_settings", "frame", "counts", "score_stats", "ticket_counts"),
                writes=("tickets", "ticket_counts"),
                bind=_IN_HOLES,
            ),
            ComputePass(
                "thin rank",
                "densify/budget/rank.comp",
                ("frame", "counts", "score_stats", "ticket_counts"),
                ("tickets", "ticket_counts"),
                bind=_IN_HOLES,
            ),
            *(each for what in ("densify", "thin") for each in _elections(what)),
            SCAN,
            ComputePass(
                name="densify split",
                shader="densify/budget/split.comp",
                reads=("counts", "score_stats", *RANKS, *planes),
                writes=("score_stats", *planes),
                slots=slots_of(moments),
            ),
            resize(grown=True),
            ComputePass(
                "densify survey",
                "densify/budget/survey.comp",
                reads=("refine_settings", "counts", *quantities.values()),
                writes=RANKS,
            ),
            *pruning_passes(moments, "score_stats", "densify/budget/statistics.glsl", ages=True),
            reset_pass(moments),
        )

    def recordings(self) -> Mapping[str, Record]:
        return {"densify": record_densify, "reset": record_reset, "thin": record_thin}

    def due(self, config: TrainConfig, step: int) -> list[str]:
        return [*super().due(config, step), *["thin"] * (step in thinnings(config))]

    def next_due(self, config: TrainConfig, step: int) -> int:
        begin = [config.densify.refine_stop_iter] if config.densify.budget.prune_opacity_reg else []
        return min(
            [super().next_due(config, step), *(n for n in (*begin, *thinnings(config)) if n > step)]
        )

    def settled(self, config: TrainConfig, cameras: Sequence[Camera], splats: int) -> TrainConfig:
        return (
            config
            if config.densify.cap_max
            else config.changed(cap_max=max(budget_for(cameras), splats))
        )

    def reached(self, config: TrainConfig) -> int:
        return budget_of(config)

    def growth(self, session: Growing) -> tuple[int, int]:
        wanted = max(session.bound, target(session.config, session.step))
        if wanted <= session.capacity:
            return session.bound, wanted
        n = session.count()
        return n, min(wanted, 2 * n)

    def scored(self, config: TrainConfig, step: int) -> bool:
        begin, end = (
            config.densify.refine_start_iter - config.densify.refine_every,
            max([config.densify.refine_stop_iter, *thinnings(config)]),
        )
        return (
            begin <= step < min(end, config.run.max_steps)
            and step % config.densify.budget.score_every == config.densify.budget.score_every - 1
        )

    def opacity_reg(self, config: TrainConfig, step: int) -> float:
        return (
            config.densify.budget.prune_opacity_reg
            if config.densify.refine_stop_iter <= step < max(thinnings(config), default=0)
            else 0.0
        )

    def record_scores(
        self, recorder: Recorder, run: Mapping[str, Pipeline], raster: Rasterizer
    ) -> None:
        recorder.run(run["weigh pixels"], threads=(raster.width, raster.height))
        for score in ("absolute", "weighted"):
            raster.record_score(recorder, score)
            recorder.run(run[f"take {score}"], indirect="splat_groups")


def _elections(what: str) -> tuple[ComputePass, ...]:
    """What turns tickets into flags: to "densify", or to "thin"."""
    spec = {"THINS": what == "thin"}
    return (
        ComputePass(
            f"{what} admit",
            "densify/budget/admit.comp",
            ("refine_settings", "frame", "counts", "ticket_counts"),
            ("ticket_counts", "admitted"),
            spec,
        ),
        ComputePass(
            f"{what} choose",
            "densify/budget/choose.comp",
            ("counts", "tickets", "admitted"),
            RANKS,
            spec,
            bind=_IN_HOLES,
        ),
    )


def thinnings(config: TrainConfig) -> list[int]:
    """Steps after which splats are thinned out."""
    first, last = (
        config.densify.refine_stop_iter,
        min(config.densify.budget.prune_to_iter, config.run.max_steps - 1),
    )
    if config.densify.budget.prune_to == 1.0 or last <= first:
        return []
    return sorted({first + round((last - first) * i / THINNINGS) for i in range(1, THINNINGS + 1)})


def budget_for(cameras: Sequence[Camera]) -> int:
    """Splats for these photographs, where no setting says how many: by their number, since more
    than that overfits few of them, and no more than so many pixels allow."""
    pixels = sum(c.width * c.height for c in cameras)
    return min(max(min(len(cameras) * SPLATS_A_PHOTOGRAPH, pixels // PIXELS_A_SPLAT), FEWEST), MOST)


def budget_of(config: TrainConfig) -> int:
    """Splats at the end of growth."""
    return config.densify.cap_max or 1_000_000


def target(config: TrainConfig, step: int) -> int:
    """Splats that there may be after so many steps, as densify/budget/admit.comp has it, or a few
    more."""
    progress = (step - config.densify.refine_start_iter) / max(
        config.densify.refine_stop_iter - config.densify.refine_start_iter, 1
    )
    return int(budget_of(config) * min(max(progress, 0), 1) ** 0.5) + 1


def record_densify(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Parameters, moments, score_stats, counts.splats and indirect.splat_groups (as a step leaves
    them) -> the same, grown and pruned."""
    recorder.run(run["densify tickets"], indirect="splat_groups")
    recorder.run(run["densify admit"], threads=(GROUP,))
    recorder.run(run["densify choose"], indirect="splat_groups")
    recorder.run(run["densify scan"], threads=(GROUP,))
    recorder.run(run["densify split"], indirect="splat_groups")
    recorder.run(run["densify grown"], threads=(1,))
    recorder.run(run["densify survey"], indirect="splat_groups")
    record_pruning(recorder, run)


def record_thin(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Records what record_densify does, without the splats that contribute least."""
    recorder.run(run["thin rank"], indirect="splat_groups")
    recorder.run(run["thin admit"], threads=(GROUP,))
    recorder.run(run["thin choose"], indirect="splat_groups")
    record_pruning(recorder, run)
