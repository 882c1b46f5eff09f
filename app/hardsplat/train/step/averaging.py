"""Averages of the splats over the last steps of a run, which take their place at its end.

A step follows one photograph, so splats wander about what all of them want; the average of many
steps stands nearer to that than the last one (Polyak & Juditsky 1992). Samples are taken between
batches and count alike. The number of splats must be fixed by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.sinks import plane_groups
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities

if TYPE_CHECKING:
    from hardsplat.train.strategies.strategy import Strategy

SAMPLES, RAREST = 10, 50  # at least so many samples, and one in so many steps


def every(config: TrainConfig) -> int:
    """Steps from one sample to the next. The last step leaves one."""
    return max(min(config.adam.average_steps // SAMPLES, RAREST), 1)


def begins(config: TrainConfig, strategy: Strategy) -> int:
    """The step after which the first sample is due; above max_steps where splats are not
    averaged."""
    if not config.adam.average_steps:
        return config.run.max_steps + 1
    first = settled_after(
        config, strategy, max(config.run.max_steps - config.adam.average_steps, 0)
    )
    return config.run.max_steps - (config.run.max_steps - first) // every(config) * every(config)


def settled_after(config: TrainConfig, strategy: Strategy, step: int) -> int:
    """This step, or the later one from which on the number of splats is fixed."""
    while (
        step < config.run.max_steps
        and (due := strategy.next_due(config, step)) < config.run.max_steps
    ):
        step = due
    return step


def next_sample(config: TrainConfig, strategy: Strategy, step: int) -> int:
    """The first step above `step` after which a sample is due; max_steps where none is."""
    first = begins(config, strategy)
    return min(
        first if step < first else step + every(config) - (step - first) % every(config),
        config.run.max_steps,
    )


def is_open(config: TrainConfig, strategy: Strategy, step: int) -> bool:
    """Whether the averages have begun after so many steps."""
    return begins(config, strategy) <= step


def is_sample(config: TrainConfig, strategy: Strategy, step: int) -> bool:
    return is_open(config, strategy, step) and (config.run.max_steps - step) % every(config) == 0


def averaging_pass(config: TrainConfig, strategy: Strategy) -> ComputePass:
    spec = {"SINCE": begins(config, strategy), "EVERY": every(config)}
    return ComputePass(
        "average",
        "optim/average.comp",
        ("frame", "counts", *quantities.values(), *quantities.averages()),
        quantities.averages(),
        spec,
    )


def record_average(recorder: Recorder, run: Mapping[str, Pipeline], capacity: int) -> None:
    """The splats as they are -> their averages."""
    recorder.run(run["average"], groups=plane_groups(quantities.plane_count("splat"), capacity))
