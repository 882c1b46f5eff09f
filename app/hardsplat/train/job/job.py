"""A training as it is planned before its first step: settings, and what device and scene decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.model.sky import SIDE
from hardsplat.raster.backends import BACKENDS, running
from hardsplat.raster.core.choose import timing_enabled
from hardsplat.raster.core.sinks import Sink, adam, moments_of
from hardsplat.settings.densify import DensifySettings
from hardsplat.settings.raster import Options
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.gradients import finds_statistics
from hardsplat.train.job import validation
from hardsplat.train.job.part import WHOLE, ScenePart
from hardsplat.train.job.views import Views
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.strategy import Strategy


@dataclass(frozen=True)
class Job:
    """A training with everything decided that does not change while it runs.

    config: the settings as given. densify: those of densification, with the splat budget. moments:
    how they are stored, a variant of MOMENT_FORMATS. rasterizers: those that may run, the first one
    at first. validation: views that the main phase holds back. settled: the step at which these
    ended it; 0 as long as they have not. weighs: these decide the weight of the mean opacity in the
    loss. frozen: the splats stay as they are, poses alone move. part: of the scene
    that is trained, by default all of it. packed: steps draw a working set of the splats that they
    see. out_of_core: that, and quantities that spill are in the host's memory. preferred: views
    that every epoch has twice.
    """

    config: TrainConfig
    views: Views
    densify: DensifySettings
    moments: str
    rasterizers: tuple[str, ...]
    validation: tuple[int, ...] = ()
    settled: int = 0
    weighs: bool = True
    frozen: bool = False
    part: ScenePart = WHOLE
    packed: bool = False
    out_of_core: bool = False
    preferred: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        views: Views,
        device: Device,
        budget: int = 0,
        part: ScenePart | None = None,
    ) -> Job:
        """budget: most splats, by default as the settings have it. Raises UserError for what the
        device cannot run."""
        config.check_gradient()
        if config.scene.background == "sphere":
            views = replace(views, texels=SIDE**2)
        densify, names = config.densify, running(device, config.raster, config.gradient)
        return cls(
            config,
            views,
            replace(densify, cap_max=budget or densify.cap_max),
            moments_of(device, config.adam.moments),
            tuple(names if timing_enabled() else names[:1]),
            validation.held_views(config, len(views.cameras), views.faces),
            weighs=not (config.loss.opacity_reg or config.loss.scale_reg),
            part=part or WHOLE,
        )

    def exposed(self) -> Job:
        """The job that trains exposures to its end."""
        config = self.config.changed(exposure="affine", exposure_until=1.0)
        return replace(self, config=config)

    def ending(self, step: int) -> Job:
        """The job whose main phase ends after that step: no splats are added from there on, and all
        rates fall to their ends."""
        stop = min(self.densify.refine_stop_iter, step)
        return replace(self, settled=step, densify=replace(self.densify, refine_stop_iter=stop))

    def resolved(self, rasterizer: str) -> dict[str, Any]:
        """The settings by name that repeat the run from its start. rasterizer: that was chosen."""
        found = {"rasterizer": rasterizer, "moments": self.moments, "resume": False}
        return self.flat | found | {"cap_max": self.densify.cap_max}

    @property
    def planned_steps(self) -> int:
        """Steps of the run where held photographs do not end its main phase."""
        return self.config.run.max_steps

    @property
    def steps(self) -> int:
        """Steps of the run, as far as that is known."""
        return validation.whole_steps(self.settled) if self.settled else self.planned_steps

    @property
    def main_steps(self) -> int:
        """The step from which held photographs are trained as well."""
        return self.settled or validation.main_steps(self.planned_steps)

    def alike_since(self, step: int) -> int:
        """The step from which looks at held photographs up to `step` are alike: after the last
        pruning, and after the end of exposures where that has passed."""
        exposed = self.exposed_until if self.exposed_until < step else 0
        return max(*self.strategy.prunings(), exposed, 0)

    @property
    def average_steps(self) -> int:
        """The last steps, over which splats are averaged; 0 for none."""
        steps = self.config.adam.average_steps
        return min(steps, (self.steps - self.settled) // 3) if self.settled else steps

    @property
    def exposed_until(self) -> int:
        """The step after which exposures are dropped; 0: never, or there are none."""
        exposure = self.config.exposure
        ends = exposure.corrected and exposure.exposure_until < 1 and not self.frozen
        return max(round(exposure.exposure_until * self.steps), 1) if ends else 0

    @property
    def extent(self) -> float:
        """Radius of the scene, world units."""
        return self.views.extent

    @cached_property
    def epoch(self) -> np.ndarray:
        """The views that an epoch has, in no order."""
        return np.array([*range(len(self.views.cameras)), *self.preferred])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return self.config.flat()

    @cached_property
    def strategy(self) -> Strategy:
        return STRATEGIES[self.densify.strategy](self.densify, self.steps)

    @property
    def estimates(self) -> int:
        """Pairs of perturbed images a step, 0 with analytic gradients."""
        gradient = self.config.gradient
        return gradient.stochastic.gradient_pairs if gradient.gradient == "stochastic" else 0

    def options(self, rasterizer: str) -> Options:
        """The options that the settings give that rasterizer."""
        options = BACKENDS[rasterizer].options.of(self.config.raster, self.config.gradient)
        return replace(options, lens=self.views.lens)

    def sink(self, depths: bool) -> Sink:
        """Where the gradients go. depths: the loss has a term of depth."""
        c, strategy = self.config, self.strategy
        found = finds_statistics(c.gradient.gradient)
        return adam(
            self.moments,
            bool(c.adam.visible_adam),
            strategy.statistics and found,
            strategy.scores and found,
            c.poses.pose_opt or c.intrinsics.intrinsics_opt,
            depths,
            self.packed,
            c.loss.flat_lambda / self.extent,
            seen_terms=c.densify.strategy == "budget",
        )


def prepare(
    config: TrainConfig,
    views: Views,
    device: Device,
    splats: int,
    part: ScenePart | None = None,
    points: int = 0,
) -> Job:
    """The job of a run. splats: at first. points: of the model, 0 without one.

    Raises UserError for what the device cannot run.
    """
    densify = config.densify
    budget = STRATEGIES[densify.strategy].budget(densify, views.cameras, splats, points)
    return Job.of(config, views, device, budget, part)
