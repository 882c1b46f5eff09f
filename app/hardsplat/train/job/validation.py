"""What a run asks of photographs that it holds back.

A few training photographs are not trained during the main phase of a run, and measured now and
then. They alone decide three things:

- *Exposures*: where, in each of several looks, a fit of colours explains much of their error, and
  of the error of trained ones, photographs differ in light. The run begins again, with exposures.
- *Regularization*: opacities decay in all steps, the faster the more their squared error exceeds
  that of trained photographs beside them. Those of a run that does not overfit stay.
- *Length*: when their PSNR does not rise any more the main phase ends. Then they are trained like
  the others, while all rates fall to their ends and the splats are averaged.

Where it still rises after half of `max_steps`, the run makes all of them. It trains all photographs
in the second half, and opacities go on to decay as they did, also where it is resumed with more
steps. `--max-steps` sets the length. Held-out views, which measure a run, have no part in this.
docs/results/generalization.md has what each constant does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities

LOOK = 500  # steps from one measurement to the next; later, more
# The main phase ends where held photographs have not gained so many dB for PATIENCE steps, and for
# as many steps as would follow it.
GAIN, PATIENCE = 0.1, 2_000
HOLD = 0.5  # share of all steps that the main phase has at most
FINISH = 0.25  # share of all steps that follow where it ends early
DECAY = 60.0  # of opacities, over the gap of squared errors to the power of 0.75
# dB that a fit of colours must gain, in each look up to PATIENCE steps after the first, so that
# exposures are trained
LIGHT = 1.1


class FittedView(Protocol):
    """A measured photograph, see measure/measure.py."""

    psnr: float
    fitted_psnr: float | None


class Look(NamedTuple):
    """What held photographs showed after a step.

    psnr, trained: the mean of theirs and of their trained neighbours', dB. gap: their squared error
    less that of these, geometric means. decay: of opacities from here on.
    """

    step: int
    psnr: float
    trained: float
    gap: float
    decay: float


def held_views(config: TrainConfig, views: int, faces: int = 1) -> tuple[int, ...]:
    """Which of n training views are held: one less than the root of their number, evenly spread.

    None are where the settings forbid it, the run is too short for two looks, or it trains anything
    but exposures of photographs or cameras: that of a held photograph would not be known yet.
    faces: views of a photograph, 6 of a panorama; each is held of another photograph, since
    ceilings are easier than walls.
    """
    trained = quantities.of_photographs(config.flat())
    unknown = not all(map(quantities.is_exposure, trained))
    asked = config.densify.strategy == "budget" and config.densify.budget.hold_back
    if unknown or not asked or main_steps(config.run.max_steps) < 2 * LOOK:
        return ()
    photographs = views // faces
    count = max(math.isqrt(photographs) - 1, 0) if faces == 1 else min(photographs, faces)
    return tuple(int((i + 0.5) * photographs / count) * faces + i % faces for i in range(count))


def trained_views(held: Sequence[int], faces: int = 1) -> list[int]:
    """As many views as are held, which are trained: their neighbours, or the next face of the same
    panorama, whose other faces are trained."""
    if faces > 1:
        return [i - i % faces + (i + 1) % faces for i in held]
    return [i + 1 if i + 1 not in held else i - 1 for i in held]


def decays(config: TrainConfig) -> bool:
    """Whether held photographs decide how fast opacities decay: where no setting does."""
    return not (config.loss.opacity_reg or config.loss.scale_reg or config.adam.opacity_decay)


def main_steps(steps: int) -> int:
    """Steps of the main phase, at most, of a run of so many."""
    return round(HOLD * steps)


def whole_steps(main: int) -> int:
    """Steps of a run whose main phase ends early after so many."""
    return round(main / (1 - FINISH))


def next_look(step: int) -> int:
    """The first step above `step` after which held photographs are measured."""
    every = LOOK * (1 + step // (10 * LOOK))
    return (step // every + 1) * every


def color_gain(held: Sequence[FittedView], trained: Sequence[FittedView]) -> float:
    """dB that a fit of colours brings renders nearer to their photographs: the geometric mean of
    the medians of held photographs, which also gain where few others show a place, and of trained
    ones."""
    gains = ([(m.fitted_psnr or m.psnr) - m.psnr for m in each] for each in (held, trained))
    return math.sqrt(math.prod(max(float(np.median(each)), 0.0) for each in gains))


def compares_light(looks: Sequence[Look], gains: Sequence[float], step: int) -> bool:
    """Whether a look after that step is needed to tell if photographs differ in light. looks:
    earlier ones. gains: of those among them that compared it, dB."""
    undecided = min(gains, default=np.inf) > LIGHT
    return undecided and bool(looks) and step <= looks[0].step + PATIENCE


def squared_error(psnrs: Sequence[float]) -> float:
    """The geometric mean of the squared errors of images with these PSNR, dB, which no single one
    of them decides."""
    return float(10 ** (-np.mean(psnrs) / 10))


def look(
    step: int, held: Sequence[float], trained: Sequence[float], before: Sequence[Look]
) -> Look:
    """held, trained: PSNR of held photographs and of their trained neighbours, which show much the
    same, dB. before: earlier looks. The decay follows from the mean of the last two gaps."""
    gap = squared_error(held) - squared_error(trained)
    smooth = float(np.mean([*[each.gap for each in before[-1:]], gap]))
    decay = DECAY * max(smooth, 0) ** 0.75
    return Look(step, float(np.mean(held)), float(np.mean(trained)), gap, decay)


def has_settled(looks: Sequence[Look], since: int = 0) -> bool:
    """Whether held photographs have stopped to improve, in means of two looks. They have not while
    trained ones beside them are worse than they were: splats drift then, and both improve later.
    since: a step from which looks count, such as the end of pruning, by which pictures get
    worse."""
    looks = [each for each in looks if each.step >= since]
    pairs = [*zip(looks[:1] + looks, looks)]
    trained = [(before.trained + now.trained) / 2 for before, now in pairs]
    if not looks or trained[-1] < max(trained):
        return False
    best, gained = -np.inf, since
    for before, now in pairs:
        if (mean := (before.psnr + now.psnr) / 2) >= best + GAIN:
            best, gained = mean, now.step
    step = looks[-1].step
    return step - gained >= max(PATIENCE, whole_steps(step) - step)
