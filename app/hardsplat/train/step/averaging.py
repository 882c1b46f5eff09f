"""Averages of the splats over the last steps of a run, which take their place at its end.

A step follows one photograph, so splats drift about what all of them want; the average of many
steps is nearer to that than the last one (Polyak & Juditsky 1992). Samples are taken between
batches and count alike. The number of splats must be fixed by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.tables import quantities
from hardsplat.train.strategies.strategy import Strategy

SAMPLES, RAREST = 10, 50  # at least so many samples, and one in so many steps


@dataclass(frozen=True)
class Averaging:
    """When samples are taken. steps: the last ones of a run, over which splats are averaged; 0 for
    none. strategy: of the run."""

    steps: int
    strategy: Strategy

    @property
    def every(self) -> int:
        """Steps from one sample to the next. The last step leaves one."""
        return max(min(self.steps // SAMPLES, RAREST), 1)

    @cached_property
    def begins(self) -> int:
        """The step after which the first sample is due, once the number of splats is fixed; above
        the steps of the run where splats are not averaged."""
        last = self.strategy.steps
        if not self.steps:
            return last + 1
        step = max(last - self.steps, 0)
        while step < last and (due := self.strategy.next_due(step)) < last:
            step = due
        return last - (last - step) // self.every * self.every

    def next_sample(self, step: int) -> int:
        """The first step above `step` after which a sample is due, or the last of the run."""
        later = step + self.every - (step - self.begins) % self.every
        return min(self.begins if step < self.begins else later, self.strategy.steps)

    def is_open(self, step: int) -> bool:
        """Whether the averages have begun after so many steps."""
        return self.begins <= step

    def is_sample(self, step: int) -> bool:
        return self.is_open(step) and (self.strategy.steps - step) % self.every == 0

    def passes(self) -> list[ComputePass]:
        """The pass that takes a sample, where there are any."""
        reads = ("frame", "counts", *quantities.values(), *quantities.averages())
        spec = {"SINCE": self.begins, "EVERY": self.every}
        each = ComputePass("average", "optim/average.comp", reads, quantities.averages(), spec)
        return [each] if self.steps else []
