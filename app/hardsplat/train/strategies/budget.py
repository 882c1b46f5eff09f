"""Growth towards a number of splats that is known from the start, along a curve over time:
candidates are drawn, and split along their longest axis.

Deng et al. 2025, "Improving Densification in 3D Gaussian Splatting for High-Fidelity Rendering"
(Improved-GS, arXiv 2508.12313).

Every `score_every` steps two more backward draws of the step's view find the scores of each splat.
One is the absolute gradients of its mean by single pixels, which do not cancel where pixels pull in
different directions. The others are T alpha of its pixels, as it is and weighted by the strength of
edges in the photograph. Between refinements a share of these statistics stays, so that a splat
is scored by more views than were drawn since the last one. Ordinary steps keep no statistics.

At a refinement, splats whose mean absolute gradient is large enough are candidates; as many of them
are drawn, with probabilities by weight, as the budget has room for by now, and split. The host
waits for nothing: it knows the budget.

With `prune_to`, splats are pruned after growth, in THINNINGS steps: those go that contributed
least, and least where the photographs have edges, to the views scored since the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.model.camera import Camera
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.sinks import SCORES
from hardsplat.settings.densify import DensifySettings
from hardsplat.tables import quantities
from hardsplat.train.strategies.strategy import (
    PRUNING,
    RANKS,
    RESET,
    SCAN,
    Growing,
    Pipelines,
    Refining,
    budget_of,
    pruning_passes,
    reset_pass,
    resize,
    slots_of,
    splat_planes,
)

THINNINGS = 5  # prunings in which splats come down to `prune_to`; fewer in the shortest runs
# where --cap-max leaves the budget to the scene
SPLATS_A_PHOTOGRAPH, PIXELS_A_SPLAT, FEWEST, MOST = 3_900, 10, 20_000, 4_000_000
_FOLDER, _IN_HOLES = "densify/budget", {"tickets": "holes"}
_TICKETS, _COUNTS = ("tickets", "ticket_counts"), ("ticket_counts", "admitted")


def budget_for(cameras: Sequence[Camera], most: int = MOST) -> int:
    """Splats for these photographs, where no setting says how many: by their number, since more
    than that overfits few of them, and no more than so many pixels allow. most: in any case."""
    pixels = sum(c.width * c.height for c in cameras)
    return min(max(min(len(cameras) * SPLATS_A_PHOTOGRAPH, pixels // PIXELS_A_SPLAT), FEWEST), most)


def _elections(what: str) -> tuple[ComputePass, ...]:
    """The passes that turn tickets into flags: to "densify", or to "thin"."""
    spec = {"THINS": what == "thin"}
    admit, choose = f"{_FOLDER}/admit.comp", f"{_FOLDER}/choose.comp"
    reads, chosen = ("refine_settings", "frame", "counts"), ("counts", "tickets", "admitted")
    return (
        ComputePass(f"{what} admit", admit, (*reads, "ticket_counts"), _COUNTS, spec),
        ComputePass(f"{what} choose", choose, chosen, RANKS, spec, bind=_IN_HOLES),
    )


class Budget(Refining):
    scores = resets = True
    statistics = ("score_stats",)
    actions: ClassVar = {
        "densify": (
            *("densify tickets", "densify admit", "densify choose", "densify scan"),
            *("densify split", "densify grown", "densify survey", *PRUNING),
        ),
        "reset": RESET,
        "thin": ("thin rank", "thin admit", "thin choose", *PRUNING),
    }

    @staticmethod
    def passes(moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        planes = splat_planes()
        scored = ("d_splats2d", "score_stats")
        tickets = ("frame", "counts", "score_stats", "ticket_counts")
        return (
            ComputePass(
                "weigh pixels",
                f"{_FOLDER}/weigh_pixels.comp",
                ("target", "photos", "camera", "frame"),
                ("d_image",),
                {"PHOTO_BYTES": photo_bytes},
            ),
            *(
                ComputePass(
                    f"take {score}",
                    f"{_FOLDER}/take.comp",
                    ("camera", "counts", "seen", *scored),
                    scored,
                    {"ABSOLUTE": score == "absolute"},
                )
                for score in SCORES
            ),
            ComputePass(
                "densify tickets",
                f"{_FOLDER}/tickets.comp",
                ("refine_settings", *tickets),
                _TICKETS,
                bind=_IN_HOLES,
            ),
            ComputePass("thin rank", f"{_FOLDER}/rank.comp", tickets, _TICKETS, bind=_IN_HOLES),
            *_elections("densify"),
            *_elections("thin"),
            SCAN,
            ComputePass(
                "densify split",
                f"{_FOLDER}/split.comp",
                ("counts", "score_stats", *RANKS, *planes),
                ("score_stats", *planes),
                slots=slots_of(moments),
            ),
            resize(grown=True),
            ComputePass(
                "densify survey",
                f"{_FOLDER}/survey.comp",
                ("refine_settings", "counts", *quantities.values()),
                RANKS,
            ),
            *pruning_passes(moments, "score_stats", f"{_FOLDER}/statistics.glsl", ages=True),
            reset_pass(moments),
        )

    @staticmethod
    def budget(settings: DensifySettings, cameras: Sequence[Camera], splats: int) -> int:
        return settings.cap_max or max(budget_for(cameras), splats)

    def prunings(self) -> list[int]:
        """Steps after which splats are pruned towards `prune_to`."""
        c, first = self.settings.budget, self.settings.refine_stop_iter
        span = min(c.prune_to_iter, self.steps - 1) - first
        if c.prune_to == 1.0 or span <= 0:
            return []
        return sorted({first + round(span * i / THINNINGS) for i in range(1, THINNINGS + 1)})

    def target(self, step: int) -> int:
        """Splats that there may be after so many steps, as densify/budget/admit.comp has it, or a
        few more."""
        c = self.settings
        progress = (step - c.refine_start_iter) / max(c.refine_stop_iter - c.refine_start_iter, 1)
        return int(budget_of(c) * min(max(progress, 0), 1) ** self.growth_power) + 1

    def due(self, step: int) -> list[str]:
        return [*super().due(step), *["thin"] * (step in self.prunings())]

    def next_due(self, step: int) -> int:
        begin = [self.settings.refine_stop_iter] if self.settings.budget.prune_opacity_reg else []
        later = [n for n in (*begin, *self.prunings()) if n > step]
        return min([super().next_due(step), *later])

    def reached(self) -> int:
        return budget_of(self.settings)

    def growth(self, step: int, splats: Growing, planned: Callable[[int], int]) -> int:
        wanted = max(splats.bound, self.target(step))
        return wanted if wanted <= splats.capacity else min(wanted, 2 * splats.count())

    def scored(self, step: int) -> bool:
        c, every = self.settings, self.settings.budget.score_every
        end = max([c.refine_stop_iter, *self.prunings()])
        begun = c.refine_start_iter - c.refine_every <= step
        return begun and step < min(end, self.steps) and step % every == every - 1

    def opacity_reg(self, step: int) -> float:
        pruned = self.settings.refine_stop_iter <= step < max(self.prunings(), default=0)
        return self.settings.budget.prune_opacity_reg if pruned else 0.0

    def record_score(
        self, recorder: Recorder, run: Pipelines, raster: Rasterizer, score: str
    ) -> None:
        if score == "weighted":
            recorder.run(run["weigh pixels"], threads=(raster.width, raster.height))
        raster.record_draw_backward(recorder, score)
        recorder.run(run[f"take {score}"], indirect="splat_groups")
