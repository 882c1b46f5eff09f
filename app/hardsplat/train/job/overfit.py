"""Whether a run overfits its photographs: a few are held for validation during the first steps,
and then compared with as many others.

Where those others show much better, opacities are regularized for the rest of the run, so that
splats that few photographs need fade away, and a long run becomes shorter. The photographs that
were held for validation are trained from then on like all others. Held-out views have no part in
it.
"""

from __future__ import annotations

import numpy as np

from hardsplat.settings.densify import BudgetSettings
from hardsplat.settings.train import TrainConfig

HELD = 6  # photographs
FEWEST = 4 * HELD  # photographs, of which so many can be spared
GAP = 3.0  # dB: by so much the others' median must be above that of the validation views
OPACITY_REG = 0.01  # weight of the mean opacity in the loss of an overfitted run
# dB around GAP over which the weight grows from nothing to all of it: two runs that differ by their
# roundings must not go different ways
RAMP = 1.0


def validation_views(config: TrainConfig, views: int) -> list[int]:
    """Which of n training views are held for validation up to `overfit_check`, evenly spread; none
    where the run does not ask, or is regularized anyhow.

    Runs that train exposures or cameras have none: those of a photograph held for validation would
    not be known yet.
    """
    checked = config.densify.strategy == "budget" and config.densify.budget.overfit_check
    regularized = config.loss.opacity_reg or config.loss.scale_reg
    if not checked or regularized or config.refines_photographs or views < FEWEST:
        return []
    return _spread(views, 0.5)


def views_to_compare(views: int) -> list[int]:
    """n views between those that are held for validation."""
    return _spread(views, 0.0)


def _spread(views: int, offset: float) -> list[int]:
    return [int((i + offset) * views / HELD) for i in range(HELD)]


def overfit_verdict(step: int, apart: list[float], others: list[float]) -> dict:
    """What the run writes down. apart, others: PSNR of views, dB.

    Medians are compared: one bad photograph, such as one with a splat in front of its camera, must
    not decide.
    """
    apart_db, others_db = float(np.median(apart)), float(np.median(others))
    share = min(max((others_db - apart_db - GAP) / RAMP + 0.5, 0.0), 1.0)
    return {
        "step": step,
        "psnr_apart": apart_db,
        "psnr_others": others_db,
        "regularized": share > 0,
        "share": share,
        "psnrs": [apart, others],
    }


def opacity_weight(verdict: dict) -> float:
    """Weight of the mean opacity in the loss; 0 where the run was not found to overfit."""
    return OPACITY_REG * verdict.get("share", 1.0) if verdict.get("regularized") else 0.0


def overfitted_length(settings: BudgetSettings, step: int, views: int) -> int:
    """Steps of a run that overfits n photographs, as found after so many steps: at least as many
    follow. 0 for no limit."""
    return max(settings.overfit_epochs * views, 2 * step) if settings.overfit_epochs else 0
