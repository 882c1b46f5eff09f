"""How long a training is, what follows from that, and how fast opacities decay: all that may change
while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.settings.densify import DensifySettings
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.train.job import validation
from hardsplat.train.job.validation import Look
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.strategy import EARLY_GROWTH, GROWTH, Strategy

SAMPLES, RAREST = 10, 50  # at least so many samples, and one in so many steps
CHOSEN = 0.85  # of a run, after which threads choose the splats that its report shows


@dataclass(frozen=True)
class Averaging:
    """When samples are taken for the averages of the splats over the last steps of a run, which
    take their place at its end.

    A step follows one photograph, so splats drift about what all of them want; the average of many
    steps is nearer to that than the last one (Polyak & Juditsky 1992). Samples are taken between
    batches and count alike. The number of splats must be fixed by then. steps: the last ones of a
    run, over which splats are averaged; 0 for none. strategy: of the run.
    """

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
        step = self.strategy.fixed_from(max(last - self.steps, 1))
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


@dataclass(frozen=True)
class Schedule:
    """config: as decided. holds_back: photographs, in the main phase. frozen: poses alone move.
    settled: the step at which photographs that are held back ended the main phase; 0 as long as
    they have not. opacity_decay: over their rate."""

    config: TrainConfig
    holds_back: bool = False
    frozen: bool = False
    settled: int = 0
    opacity_decay: float = 0.0

    def judged(self, looks: Sequence[Look]) -> Schedule:
        """The schedule that looks at held photographs decide: how fast opacities decay, and,
        where they have stopped to improve, the end of the main phase after the last one."""
        last, found = looks[-1], self
        if validation.decays(self.config):
            found = replace(self, opacity_decay=last.decay)
        may = self.config.run.early_stop and last.step < self.main_steps
        ends = may and validation.has_settled(looks, self.alike_since(last.step))
        return found.shortened(last.step) if ends else found

    def shortened(self, step: int) -> Schedule:
        """The schedule whose main phase ends after that step: no splats are added from there on,
        and all rates fall to their ends."""
        return replace(self, settled=step)

    @property
    def steps(self) -> int:
        """Steps of the run, as far as that is known."""
        whole = self.config.run.max_steps
        return validation.whole_steps(self.settled) if self.settled else whole

    @property
    def main_steps(self) -> int:
        """The step from which held photographs are trained as well."""
        return self.settled or validation.main_steps(self.steps)

    @property
    def falls(self) -> tuple[int, int] | None:
        """Steps from and to which all rates fall to their ends, where held photographs say so."""
        return (self.settled, self.steps) if self.settled else None

    @cached_property
    def densify(self) -> DensifySettings:
        """Settings of densification, which ends with the main phase."""
        c = self.config.densify
        stop = min(c.refine_stop_iter, self.settled or c.refine_stop_iter)
        return replace(c, refine_stop_iter=stop)

    @cached_property
    def strategy(self) -> Strategy:
        power = EARLY_GROWTH if self.config.run.early_stop else GROWTH
        return STRATEGIES[self.densify.strategy](self.densify, self.steps, power)

    @cached_property
    def averaging(self) -> Averaging:
        steps = self.config.adam.average_steps
        if self.settled:
            steps = min(steps, (self.steps - self.settled) // 3)
        return Averaging(steps, self.strategy)

    @cached_property
    def chosen_from(self) -> int:
        """The step from which on splats may be chosen for the report: there will be no others, and
        these move little."""
        return self.strategy.fixed_from(round(CHOSEN * self.steps))

    @cached_property
    def ends(self) -> dict[str, int]:
        """The steps after which quantities are 0 again, by name: of those that do not stay."""
        flat = self.config.flat()
        trained = [q for q in quantities.QUANTITIES.values() if quantities.is_chosen(q, flat)]
        shares = {q.name: flat[q.rate.until] for q in trained if q.rate.until and not self.frozen}
        return {name: max(round(s * self.steps), 1) for name, s in shares.items() if s < 1}

    def is_look(self, step: int) -> bool:
        """Whether photographs that are held back are measured after that step."""
        due = step == validation.next_look(step - 1) or step == self.main_steps
        return self.holds_back and due and step <= self.main_steps

    def alike_since(self, step: int) -> int:
        """The step from which looks at held photographs up to `step` are alike: after the last
        pruning, and after the end of quantities that do not stay."""
        ended = [end for end in self.ends.values() if end < step]
        return max([*self.strategy.prunings(), *ended, 0])

    def next_stop(self, step: int) -> int:
        """The next step count after which a batch must end: for a refinement, a measurement, a
        file, or the end."""
        run = self.config.run
        stops = [self.steps, *(n for n in (*run.eval_steps, *run.save_steps) if n > step)]
        if self.holds_back and step < self.main_steps:
            stops += [validation.next_look(step), self.main_steps]
        stops += [end for end in self.ends.values() if step < end]
        if every := run.checkpoint_every:
            stops.append((step // every + 1) * every)
        return min(*stops, self.averaging.next_sample(step), self.strategy.next_due(step))
