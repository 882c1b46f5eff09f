"""Whether a run overfits its photographs: a few are held for validation during the first steps,
and then compared with as many others.

Where those others show much better, opacities are regularized for the rest of the run, so that
splats that few photographs need fade away, and a long run becomes shorter. The photographs that
were held for validation are trained from then on like all others. Held-out views have no part in
it.
"""

from __future__ import annotations

import numpy as np

from hardsplat.settings.presets import of_length
from hardsplat.settings.train import TrainConfig

SET_APART = 6
GAP = 3.0  # dB: by so much the others' median must be above that of the validation views
OPACITY_REG = 0.01  # weight of the mean opacity in the loss of an overfitted run
# dB around GAP over which the weight grows from nothing to all of it: two runs that differ by their
# roundings must not go different ways
RAMP = 1.0
FEWEST = 4 * SET_APART  # photographs, of which so many can be spared


def views_apart(config: TrainConfig, views: int) -> list[int]:
    """Which of n training views are held for validation up to `overfit_check`, evenly spread; none
    where the run does not ask, or is regularized anyhow.

    Runs that train exposures or cameras have none: those of a photograph held for validation would
    not be known yet.
    """
    asked = (
        config.densify.strategy == "budget"
        and config.densify.budget.overfit_check
        and not (config.loss.opacity_reg or config.loss.scale_reg)
    )
    refined = (
        config.exposure.exposure != "none"
        or config.poses.pose_opt
        or config.intrinsics.intrinsics_opt
    )
    return _spread(views, 0.5) if asked and not refined and views >= FEWEST else []


def views_to_compare(views: int) -> list[int]:
    """n views between those that are held for validation."""
    return _spread(views, 0.0)


def _spread(views: int, offset: float) -> list[int]:
    return [int((i + offset) * views / SET_APART) for i in range(SET_APART)]


def judged(step: int, apart: list[float], others: list[float]) -> dict:
    """What the run writes down. apart, others: PSNR of views, dB.

    Medians are compared: one bad photograph, such as one with a splat in front of its camera, must
    not decide.
    """
    apart_db, others_db = float(np.median(apart)), float(np.median(others))
    gap = others_db - apart_db
    share = min(max((gap - GAP) / RAMP + 0.5, 0.0), 1.0)
    return {
        "step": step,
        "psnr_apart": apart_db,
        "psnr_others": others_db,
        "regularized": share > 0,
        "share": share,
        "psnrs": [apart, others],
    }


def shortened(config: TrainConfig, step: int, views: int) -> TrainConfig:
    """The settings of a run that overfits n photographs, after so many steps: at least
    as many follow."""
    steps = max(config.densify.budget.overfit_epochs * views, 2 * step)
    return (
        of_length(config, steps).changed(overfit_check=config.densify.budget.overfit_check)
        if config.densify.budget.overfit_epochs and steps < config.run.max_steps
        else config
    )
