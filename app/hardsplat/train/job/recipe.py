"""What a run decides before its first step, by its photographs and the points of its model: its
length, its number of splats, and whether splats rest (docs/results/generalization.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hardsplat.settings.presets import for_photographs, of_length
from hardsplat.settings.train import FIELDS, TrainConfig
from hardsplat.train.job.job import Job
from hardsplat.train.job.light import SHARE, SPREAD, Light
from hardsplat.train.job.overfit import FEW_EPOCHS, FEW_STEPS
from hardsplat.train.job.shown import check_shown
from hardsplat.train.job.views import Views
from hardsplat.train.strategies.budget import budget_for

Say = Callable[[str], None]  # prints a decision, and keeps it with the result

# Share of the points that a view shows, below which splats rest in steps that do not show them.
# Adam's steps are as long as the gradient is certain: a splat that one step of fifteen shows would
# make steps of four times that length. Such a run is short; from MANY_SHOWN on it has all steps,
# and in between a share of them, since nothing jumps where no capture was measured.
FEW_SHOWN, MANY_SHOWN = 0.25, 0.45
# Epochs that a short run has beyond FEW_EPOCHS up to FEW_STEPS, and its least steps.
MORE_EPOCHS, LEAST_STEPS = 72, 3_000


def steps_of(share: float, photographs: int, planned: int) -> int:
    """Steps of a run whose views show that share of the points. planned: of any run."""
    least = max(min(MORE_EPOCHS * photographs, FEW_STEPS), LEAST_STEPS)
    short = min(max(FEW_EPOCHS * photographs, least), planned)
    rise = min(max((share - FEW_SHOWN) / (MANY_SHOWN - FEW_SHOWN), 0.0), 1.0)
    return round(short * (planned / short) ** rise)


def decided(config: TrainConfig, views: Views, points: np.ndarray, say: Say) -> TrainConfig:
    """The settings with what they leave to the model's points (N, 3), in world units: whether
    splats rest in steps that do not show them, and how many steps there are. Raises UserError
    where the run begins with points that no view shows."""
    share, depths = views.shown(points)
    if len(points) and config.start.init is None and config.start.init_type == "sfm":
        check_shown(config, depths)
    if config.adam.visible_adam is not None:
        return config
    photographs, rest = len(views.cameras), share < FEW_SHOWN
    what = ["splats rest in steps that do not show them"] if rest else []
    flags = ["--visible-adam"] if rest else []
    own: dict[str, Any] = {"visible_adam": rest}
    if config.run.max_epochs == FIELDS["max_epochs"].default:  # no other length is asked for
        planned = for_photographs(config, photographs).run.max_steps
        if (steps := steps_of(share, photographs, planned)) < planned:
            config = of_length(config, steps, max_epochs=0)
            what.append(f"the run has {steps} steps")
            flags.append(f"--max-steps {steps}")
        if rest and config.densify.strategy == "budget":
            own["overfit_check"] = 0
            what.append("none is held for validation")
            flags.append("--overfit-check 0")
    if what:
        shown = f"a training view shows {100 * share:.0f} % of the points"
        say(f"{shown}, so {', '.join(what)}: {' '.join(flags)} (--no-visible-adam: not so)")
    return config.changed(**own)


def say_plan(job: Job, config: TrainConfig, splats: int, points: int, say: Say) -> None:
    """Says what the number of photographs and points decides. config: as given.
    splats: at first. points: of the model."""
    cameras, most, plan = job.views.cameras, job.densify.cap_max, []
    if job.steps < config.run.max_steps:
        check = job.config.densify.budget.overfit_check
        held = f" --overfit-check {check}" * bool(job.validation)
        plan.append(f"{job.steps} steps (--max-steps {job.steps}{held})")
    if job.densify.strategy == "budget" and not config.densify.cap_max:
        why = ""
        if most <= splats:
            why = ", as many as at first"
        elif points and most < budget_for(cameras):
            why = f" because the model has {points / len(cameras):.0f} points a view"
        plan.append(f"at most {most} splats{why} (--cap-max {most})")
    if plan:
        say(f"for {len(cameras)} training views there are {' and '.join(plan)}")


def say_light(light: Light, lit: Job, say: Say) -> None:
    """Says what the light of photographs decides. lit: the job that has decided."""
    found = f"views of the same points differ in exposure by {100 * light.spread:.0f} %"
    if lit.config.exposure.corrected:
        flags = "--exposure affine --exposure-until 1 --overfit-check 0 --opacity-reg"
        flags += f" {lit.config.loss.opacity_reg:g} --max-steps {lit.steps}"
        say(f"{found}, so exposures are trained: {flags} (--exposure none: they are not)")
        return
    if light.left == 1:
        found = "no tracks of points tell whether views differ in exposure"
    elif light.spread >= SPREAD:
        found += f", but that leaves {100 * light.left:.0f} % of their differences"
        found += f" (from {100 * SHARE:.0f} % on it does not count)"
    else:
        found += f", less than {100 * SPREAD:.0f} %"
    say(f"{found}: exposures are not trained: --exposure none (--exposure affine: they are)")
