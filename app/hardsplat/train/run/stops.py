"""Where batches of a run end: how many steps they have, and which steps must be the last of one."""

from __future__ import annotations

from hardsplat.settings.run import RunSettings
from hardsplat.step.runner import LONGEST_BATCH
from hardsplat.train.job import validation
from hardsplat.train.session.session import Session

BATCH_SECONDS = 1.0  # how long a batch may take on a slow device: Ctrl-C waits for two


def batch_steps(
    deterministic: bool, longest: int, step: int, step_seconds: float, seconds: float
) -> int:
    """Steps of the batch after `step`: as many as take BATCH_SECONDS or `seconds`.

    deterministic: no clock decides, since what a batch clips depends on its end. longest: that the
    settings and the photographs in flight allow. step_seconds: the time of a step, as far as that
    is known. seconds: the most that watchers want.
    """
    if deterministic:
        return min(longest - step % longest, LONGEST_BATCH)
    steps = max(1, min(BATCH_SECONDS, seconds) / max(step_seconds, 1e-6))
    return int(min(longest, LONGEST_BATCH, steps))


def next_stop(settings: RunSettings, session: Session) -> int:
    """The next step count after which the batch must end: for a refinement, a measurement, a file,
    or the end."""
    step, job = session.step, session.job
    stops = [job.steps, *(n for n in (*settings.eval_steps, *settings.save_steps) if n > step)]
    if job.validation and step < job.main_steps:
        stops += [validation.next_look(step), job.main_steps]
    if step < job.exposed_until:
        stops.append(job.exposed_until)
    if every := settings.checkpoint_every:
        stops.append((step // every + 1) * every)
    return min(*stops, session.averaging.next_sample(step), job.strategy.next_due(step))
