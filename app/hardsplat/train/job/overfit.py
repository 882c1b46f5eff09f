"""Whether a run overfits its photographs: a few are held for validation during the first steps,
and then compared with as many others.

Where those others show much better, opacities are regularized for the rest of the run, so that
splats that few photographs need fade away, and a long run becomes shorter. Where photographs that
were held gain little while the others gain, a long run becomes shorter as well. They are trained
from then on like all others. Held-out views have no part in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hardsplat.settings.densify import BudgetSettings
from hardsplat.settings.train import TrainConfig

HELD, PART = 6, 16  # photographs, or one of so many where that is more
FEWEST = 4 * HELD  # photographs, of which so many can be spared
GAP = 3.0  # dB: by so much the others' median must be above that of the validation views
OPACITY_REG = 0.01  # weight of the mean opacity in the loss of an overfitted run
# dB around GAP over which the weight grows from nothing to all of it: two runs that differ by their
# roundings must not go different ways
RAMP = 1.0
# of validation views near each end of the check of length, and the part of its steps between them
LOOKS, APART = 3, 35
LENGTH_CHECK = 7_000  # step at which it is known what photographs held for validation gained
LENGTH = 12 / 7  # steps, over those of the check, of a run to which more give nothing
# Least steps of an overfitted run whose splats began at random: they must find their places first.
FROM_RANDOM = 4_000
# Epochs of a run that has soon learned what its photographs alone have, light or places that few of
# them show, and the least steps of it.
FEW_EPOCHS, FEW_STEPS = 56, 8_000
# share of what trained photographs gain that those held for validation must gain as well; below it
# the run becomes shorter, over a ramp for the reason above
PASSED, PASSED_RAMP = 0.65, 0.2


def validation_views(config: TrainConfig, views: int, faces: int = 1) -> list[int]:
    """Which of n training views are held for validation up to `overfit_check`, evenly spread; none
    where the run does not ask, or is regularized anyhow.

    Runs that train cameras have none: those of a photograph held for validation would not be known
    yet. faces: views a photograph, 6 of a panorama; each is held of another photograph, since
    ceilings are easier than walls.
    """
    checked = config.densify.strategy == "budget" and config.densify.budget.overfit_check
    regularized = config.loss.opacity_reg or config.loss.scale_reg
    cameras = config.poses.pose_opt or config.intrinsics.intrinsics_opt
    if not checked or regularized or cameras or views < FEWEST:
        return []
    return _spread(views, 0.5, faces)


def views_to_compare(views: int, faces: int = 1) -> list[int]:
    """n views between those that are held for validation, the same faces of them."""
    if views // faces >= 2 * max(HELD, views // PART):
        return _spread(views, 0.0, faces)
    return [(i + faces) % views for i in _spread(views, 0.5, faces)]


def _spread(views: int, offset: float, faces: int) -> list[int]:
    held = max(HELD, views // PART)
    return [int((i + offset) * (views // faces) / held) * faces + i % faces for i in range(held)]


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


def overfitted_length(
    settings: BudgetSettings, verdict: dict, steps: int, views: int, at_random: bool = False
) -> int:
    """Steps of a run of n photographs from here on. steps: that were planned. Where it overfits
    they are so many a photograph, and at least as many follow as there were. The length goes from
    one to the other in the upper half of the ramp of opacities, by ratio. at_random: splats began
    at random places."""
    least = max(2 * verdict["step"], FROM_RANDOM * at_random)
    limit = max(settings.overfit_epochs * views, least)
    if not settings.overfit_epochs or limit >= steps:
        return steps
    return round(steps * (limit / steps) ** max(2 * verdict["share"] - 1, 0.0))


def short_run(photographs: int) -> int:
    """Steps of a run of FEW_EPOCHS on n photographs, no fewer than FEW_STEPS."""
    return max(FEW_EPOCHS * photographs, FEW_STEPS)


def looks(check: int, steps: int) -> tuple[int, ...]:
    """Steps after which views held for validation are measured, up to `check`; none in a run that
    is not to be shortened. What is measured varies from step to step, so there are several."""
    if not check or steps <= LENGTH * check:
        return ()
    ends = [end - i * check // APART for end in (check // 2, check) for i in range(LOOKS)]
    return tuple(sorted({max(n, 1) for n in ends}))


def length_verdict(
    steps: int, check: int, held: Mapping[int, float], trained: Mapping[int, float]
) -> dict:
    """What a run writes down of its length in the second half of `check` steps.

    steps: that are planned. held: mean PSNR of validation views, dB, after the steps of `looks`.
    trained: PSNR of batches, dB, by the step after them. length: steps of the run from here on.
    """
    middle, near = 3 * check // 4, check // 8
    held_gain = _gain([(db, n > middle) for n, db in held.items() if n <= check])
    ends = {n: db for n, db in trained.items() if n <= check}
    gain = _gain([(db, n > middle) for n, db in ends.items() if -n % (check // 2) < near])
    passed = held_gain / gain if gain > 0 else 1.0
    share = float(np.clip((PASSED - passed) / PASSED_RAMP, 0, 1))
    length = round(steps * (LENGTH * check / steps) ** share)
    return {"held_gain": held_gain, "gain": gain, "length": length}


def _gain(values: Sequence[tuple[float, bool]]) -> float:
    """The mean of those marked, less the mean of the others; 0 where there are none of one kind."""
    means = [np.mean([v for v, late in values if late is of] or [np.nan]) for of in (True, False)]
    return float(np.nan_to_num(means[0] - means[1]))
