"""MCMC densification on the GPU: dead splats move onto live ones, the scene grows by a twentieth,
means drift.

Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", with the schedule and
constants of gsplat's MCMCStrategy. It looks at parameters alone, so any rasterizer may draw them.
Deterministic: sums of opacities are integers, copies are counted by integer atomics, random
numbers are hashes of (seed, step, place). Growth follows from the number of splats: the host waits
for nothing.

Differences from gsplat, on purpose. Copies share an opacity exactly whatever their number (there 51
at most, the size of a table). Sources start without momentum in growth too, as in the authors'
code, and so do relocated splats: theirs belonged to where they were. A splat with a number that is
not finite is dead. The noise and the weight of scales in the loss are in units of the scene's
extent (refine_settings, LOSS_TERMS), there in world units. So a scene trains alike in metres and in
centimetres.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.tables import quantities
from hardsplat.train.strategies.strategy import (
    RANKS,
    SCAN,
    Growing,
    Refining,
    slots_of,
    splat_planes,
)

_IN_HOLES = {"copies": "holes"}
NOISE = ComputePass(
    "noise",
    "densify/mcmc/noise.comp",
    ("refine_settings", "rates", "frame", "counts", *GEOMETRY),
    ("means",),
)


def grown(splats: int) -> int:
    """Splats after a refinement where nothing limits them: 1.05 times as many, in whole numbers."""
    return splats + splats // 20


def _round(name: str, slots: dict[str, str], adds: bool) -> tuple[ComputePass, ...]:
    """The passes that fill places with copies of splats drawn by opacity: the dead ones, or new
    ones behind the last."""
    planes, spec, drawn = splat_planes(), {"ADDS": adds}, ("frame", "counts", *RANKS)
    return (
        ComputePass(
            f"{name} weigh",
            "densify/mcmc/weigh.comp",
            ("refine_settings", "counts", *quantities.values()),
            (*RANKS, "copies"),
            spec,
            bind=_IN_HOLES,
        ),
        ComputePass(
            f"{name} draw",
            "densify/mcmc/draw.comp",
            (*drawn, "copies"),
            ("copies",),
            spec,
            bind=_IN_HOLES,
        ),
        ComputePass(
            f"{name} copy", "densify/mcmc/copy.comp", (*drawn, *planes), planes, spec, slots=slots
        ),
    )


class Mcmc(Refining):
    by_extent = True
    # Leaves no splat that was dead (opacity at most refine_settings.prune_opa, or not finite) where
    # any was alive; then there are min(grown(N), counts.capacity). Sources and copies start without
    # momentum.
    actions: ClassVar = {
        "densify": (
            *("relocate weigh", "densify scan", "relocate draw", "mcmc share", "relocate copy"),
            *("add weigh", "densify scan", "add draw", "mcmc share", "add copy", "mcmc resize"),
        )
    }
    # means move by the rate of means * refine_settings.noise_lr * logistic(opacity) * Sigma *
    # normal, before the step counts up
    after_adam = ("noise",)

    @staticmethod
    def passes(moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        slots, folder = slots_of(moments), "densify/mcmc"
        shared = ("log_scales", "logit_opacities", *quantities.moments())
        reads = ("refine_settings", "counts", "copies", *shared)
        share = f"{folder}/share.comp"
        return (
            SCAN,
            *_round("relocate", slots, adds=False),
            *_round("add", slots, adds=True),
            ComputePass("mcmc share", share, reads, shared, slots=slots, bind=_IN_HOLES),
            ComputePass(
                "mcmc resize", f"{folder}/resize.comp", ("counts",), ("counts", "indirect")
            ),
            NOISE,
        )

    def growth(self, step: int, splats: Growing, planned: Callable[[int], int]) -> int:
        wanted = grown(splats.bound)  # no splat is removed
        return min(wanted, self.settings.cap_max or wanted)
