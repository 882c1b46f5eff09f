"""Where batches of a run end: how many steps they have, and which steps must be the last of one."""

from __future__ import annotations

from hardsplat.settings.train import TrainConfig
from hardsplat.train.step import averaging
from hardsplat.train.step.batch import LONGEST_BATCH
from hardsplat.train.step.photos import Photos
from hardsplat.train.strategies.strategy import Strategy

BATCH_SECONDS = 1.0  # how long a batch may take on a slow device: Ctrl-C waits for two


def batch_steps(config: TrainConfig, step: int, step_seconds: float, seconds: float) -> int:
    """Steps of the batch after `step`: as many as take BATCH_SECONDS or `seconds`.

    step_seconds: what a step takes, as far as that is known. seconds: the most that watchers want.
    """
    if config.run.deterministic:  # what a batch clips depends on its end, which no clock may decide
        return min(config.run.batch_steps - step % config.run.batch_steps, LONGEST_BATCH)
    steps = max(1, min(BATCH_SECONDS, seconds) / max(step_seconds, 1e-6))
    return int(min(config.run.batch_steps, LONGEST_BATCH, steps))


def fitted_batch(config: TrainConfig, photos: Photos) -> TrainConfig:
    """The settings with batches as short as photographs in flight ask for on this device."""
    return config.changed(batch_steps=min(config.run.batch_steps, photos.most_steps))


def next_stop(config: TrainConfig, strategy: Strategy, step: int, checked: bool) -> int:
    """The next step count after which the batch must end: for a refinement, a measurement, a file,
    or the end. checked: the run checks for overfitting."""
    c = config
    stops = [c.run.max_steps, *(n for n in (*c.run.eval_steps, *c.run.save_steps) if n > step)]
    if checked and step < c.densify.budget.overfit_check:
        stops.append(c.densify.budget.overfit_check)
    if c.run.checkpoint_every:
        stops.append((step // c.run.checkpoint_every + 1) * c.run.checkpoint_every)
    stops.append(averaging.next_sample(c, strategy, step))
    return min(*stops, strategy.next_due(c, step))
