"""A training as it is decided before its first step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardsplat.raster.backends import BACKENDS
from hardsplat.settings.raster import Options
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.facts import WHOLE, ScenePart
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.job.views import Views
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.strategy import Strategy


class Decision(NamedTuple):
    """What a rule has decided. changes: other values of settings, by name. what, why: for the last
    line of the run and its report, where they are worth it. note: printed at once."""

    changes: dict[str, Any]
    what: str = ""
    why: str = ""
    note: str = ""


@dataclass(frozen=True)
class Job:
    """A training with everything decided that does not change while it runs: what `decide` makes of
    settings and facts.

    config: the settings, with what was left to device and scene. rasterizers: those that may run,
    the first one at first. schedule: that it begins with; a session has the one of now. validation:
    views that the main phase holds back. part, preferred: see Facts. decisions: of the rules.
    """

    config: TrainConfig
    views: Views
    rasterizers: tuple[str, ...]
    schedule: Schedule
    validation: tuple[int, ...] = ()
    part: ScenePart = WHOLE
    preferred: tuple[int, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def packed(self) -> bool:
        """Whether steps draw a working set of the splats that they see."""
        return self.config.run.packed

    @property
    def out_of_core(self) -> bool:
        """Whether they do, and quantities that spill are in the host's memory."""
        return self.config.run.out_of_core == "on"

    @cached_property
    def held(self) -> np.ndarray:
        """Which entries of `epoch` are photographs that are held back."""
        return np.flatnonzero(np.isin(self.epoch, self.validation))

    @cached_property
    def epoch(self) -> np.ndarray:
        """The views that an epoch has, in no order."""
        return np.array([*range(len(self.views.cameras)), *self.preferred])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return self.config.flat()

    @property
    def strategy(self) -> type[Strategy]:
        """What it has whatever the schedule: passes, statistics, recordings."""
        return STRATEGIES[self.config.densify.strategy]

    def options(self, rasterizer: str) -> Options:
        """The options that the settings give that rasterizer."""
        options = BACKENDS[rasterizer].options.of(self.config.raster, self.config.gradient)
        return replace(options, lens=self.views.lens)
