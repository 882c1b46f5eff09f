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
from hardsplat.settings.presets import for_photographs, of_length
from hardsplat.settings.raster import Options
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.gradients import finds_statistics
from hardsplat.train.job import overfit
from hardsplat.train.job.light import Light
from hardsplat.train.job.part import WHOLE, ScenePart
from hardsplat.train.job.views import Views
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.strategy import Strategy


@dataclass(frozen=True)
class Job:
    """A training with everything decided that does not change while it runs.

    config: the settings as given, with step numbers of the final length. densify: those of
    densification, with the splat budget. moments: how they are stored, a variant of MOMENT_FORMATS.
    rasterizers: those that may run, the first one at first. validation: views held for validation
    until `held_until`. frozen: the splats stay as they are, poses alone move. part: of the scene
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
            tuple(overfit.validation_views(config, len(views.cameras), views.faces)),
            part=part or WHOLE,
        )

    def lit(self, light: Light) -> Job:
        """The job with the exposures that `auto` finds in the light of its photographs. Where that
        differs, exposures are trained to the end, opacities are regularized, and the run is short:
        what photographs alone have of light is soon learned by splats."""
        if not light.differs or self.estimates:
            return replace(self, config=self.config.changed(exposure="none"))
        limited, reg = self.config.densify.budget.overfit_epochs, self.config.loss.opacity_reg
        short = overfit.short_run(len(self.views.cameras)) if limited else self.steps
        job = self.shortened(min(self.steps, short))
        own = {"exposure": "affine", "exposure_until": 1.0}
        config = job.config.changed(**own, opacity_reg=max(reg, overfit.OPACITY_REG))
        return replace(job, config=config, validation=())

    def shortened(self, steps: int) -> Job:
        """The job with so many steps in all, and schedules of that length, but with the same check
        for overfitting."""
        check = self.config.densify.budget.overfit_check
        config = of_length(self.config, steps, overfit_check=check)
        densify = config.densify
        return replace(self, config=config, densify=replace(densify, cap_max=self.densify.cap_max))

    def resolved(self, rasterizer: str) -> dict[str, Any]:
        """The settings by name that repeat the run from its start. rasterizer: that was chosen."""
        found = {"rasterizer": rasterizer, "moments": self.moments, "resume": False}
        return self.flat | found | {"cap_max": self.densify.cap_max}

    @property
    def steps(self) -> int:
        return self.config.run.max_steps

    @property
    def exposed_until(self) -> int:
        """The step after which exposures are dropped; 0: never, or there are none."""
        exposure = self.config.exposure
        ends = exposure.corrected and exposure.exposure_until < 1 and not self.frozen
        return max(round(exposure.exposure_until * self.steps), 1) if ends else 0

    @cached_property
    def looks(self) -> tuple[int, ...]:
        """Steps after which views held for validation are measured, to see whether more help."""
        return overfit.looks(overfit.LENGTH_CHECK, self.steps) if self.validation else ()

    @property
    def held_until(self) -> int:
        """The step from which views held for validation are trained as well."""
        return max(self.densify.budget.overfit_check, *self.looks, 0)

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
        )


def prepare(
    config: TrainConfig,
    views: Views,
    device: Device,
    splats: int,
    resumed: int = 0,
    part: ScenePart | None = None,
    points: int = 0,
) -> Job:
    """The job of a run, made once. splats: at first. resumed: steps that were made already.
    points: of the model, 0 without one.

    Photographs limit the length of a run, but for a finished one that goes on. Raises UserError for
    what the device cannot run.
    """
    sized = for_photographs(config, len(views.cameras))
    if resumed >= sized.run.max_steps:
        sized = config
    densify = sized.densify
    budget = STRATEGIES[densify.strategy].budget(densify, views.cameras, splats, points)
    return Job.of(sized, views, device, budget, part)
