"""A training as it is decided before its first step, by rules that neither read nor print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import host_bytes
from hardsplat.raster.backends import BACKENDS, training_needs
from hardsplat.settings.rasterizers import Options
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.tables.quantities import Of
from hardsplat.train.job import validation
from hardsplat.train.job.facts import WHOLE, Facts, ScenePart, Views, fitting
from hardsplat.train.job.schedule import Schedule
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
    def held_back(self) -> np.ndarray:
        """Which entries of `epoch` are views of `validation`."""
        return np.flatnonzero(np.isin(self.epoch, self.validation))

    @cached_property
    def epoch(self) -> np.ndarray:
        """The views that an epoch has, in no order."""
        return np.array([*range(len(self.views.cameras)), *self.preferred])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return self.config.flat()

    @cached_property
    def items(self) -> dict[Of, int]:
        """How many there are of what is trained besides splats."""
        cameras, numbers = self.views.cameras, self.views.numbers
        texels = quantities.TEXELS if quantities.chosen("texel", self.flat) else 0
        return {"photograph": len(cameras), "camera": max(numbers, default=0) + 1, "texel": texels}

    @property
    def strategy(self) -> type[Strategy]:
        """What it has whatever the schedule: passes, statistics, recordings."""
        return STRATEGIES[self.config.densify.strategy]

    @property
    def compares_light(self) -> bool:
        """Whether photographs that are held back tell if they differ in light, see `exposure`."""
        return self.config.exposure.exposure == "auto"

    @property
    def asked(self) -> list[int]:
        """Views whose photographs are asked while the run trains: those that are held back, and
        behind them trained ones beside them."""
        held = self.validation
        return [*held, *validation.trained_views(held, self.views.faces)]

    @property
    def reach(self) -> float:
        """What rates of positions are shares of, world units: the extent of the scene, or how far
        its photographs look, where that is less. A flight or a path is much longer than what it
        shows is away, and steps of its length would throw splats out of view."""
        views = self.views
        return views.extent if self.strategy.by_extent else min(views.extent, views.depth)

    def options(self, rasterizer: str) -> Options:
        """The options that the settings give that rasterizer."""
        options = BACKENDS[rasterizer].options.of(self.config.raster, self.config.gradient)
        return replace(options, lens=self.views.lens)


def budget(config: TrainConfig, facts: Facts) -> Decision | None:
    """The most splats, where the settings leave that to the scene."""
    densify, cameras = config.densify, facts.views.cameras
    most = STRATEGIES[densify.strategy].budget(densify, cameras, facts.splats)
    if most == densify.cap_max:
        return None
    what = f"at most {most:,} splats" + ", as many as at first" * (most <= facts.splats)
    return Decision({"cap_max": most}, what, f"{len(cameras)} training photographs")


def moments(config: TrainConfig, facts: Facts) -> Decision | None:
    """How the moments of Adam are stored."""
    return Decision({"moments": facts.device.moments})


def memory(config: TrainConfig, facts: Facts) -> Decision | None:
    """Steps draw a working set of the splats that they see, or such a set while quantities that
    spill are in the host's memory: where that is named, or where the planned splats do not fit the
    device otherwise. Adam then leaves splats alone that a step does not see.

    Raises UserError where that cannot be.
    """
    run, device, rasterizer = config.run, facts.device, facts.device.rasterizers[0]
    planned = max(facts.splats, config.densify.cap_max)
    asked = ["--packed"] * run.packed + ["--out-of-core on"] * (run.out_of_core == "on")
    lacks = "--gradient analytic" if config.gradient.estimates else device.lacks
    lacks = "another --background than sphere" if config.scene.background == "sphere" else lacks
    if lacks and asked:
        raise UserError(f"{asked[0]} needs {lacks}")
    packed: dict[str, Any] = {"packed": True, "visible_adam": True}
    outside = packed | {"out_of_core": "on"}
    if run.out_of_core == "on":
        return Decision(outside)

    def most_in(form: dict[str, Any]) -> int:
        return fitting(device, config.changed(**form), rasterizer)

    named = packed if run.packed else {}
    most = most_in(named)
    if lacks or run.out_of_core == "off" or planned <= most:
        return Decision(named)
    form = packed if planned <= most_in(packed) else outside
    more = most_in(form)
    if more <= most:
        return Decision(named)
    how = "steps copy those that they see (--packed)"
    if form is outside:
        each = training_needs(rasterizer, config.model.sh_degree, config.adam.moments)
        host = host_bytes(each) * planned / 2**30
        how = f"their higher colour bands go to the host's memory ({host:.1f} GiB)"
    note = (
        f"{planned:,} splats are planned, {device.name} holds {most:,}: {how}, for about {more:,} "
        "splats (--out-of-core off: not)"
    )
    return Decision(form, note=note)


def exposure(config: TrainConfig, facts: Facts) -> Decision | None:
    """Exposures are trained to the end of the run where photographs differ in light."""
    gain = min(facts.color_gains, default=-np.inf)
    if config.exposure.exposure != "auto" or gain <= validation.LIGHT:
        return None
    why = f"a fit of colours brings renders {gain:.1f} dB nearer to photographs"
    return Decision(
        {"exposure": "affine", "exposure_until": 1.0},
        "exposures are trained, from the start on",
        why,
        f"{why}: the run begins again and trains exposures",
    )


def near_plane(config: TrainConfig, facts: Facts) -> Decision | None:
    """Splats are drawn from a smaller distance on in a scene of small units."""
    if facts.near_plane is None:
        return None
    plane, why = facts.near_plane
    what = f"splats are drawn from {plane:g} world units on"
    note = f"{why}: {what} (--near-plane); many viewers need larger units: hardsplat edit --scale"
    return Decision({"near_plane": plane}, what, why, note)


RULES: tuple[Callable[[TrainConfig, Facts], Decision | None], ...]
RULES = near_plane, budget, moments, memory, exposure


def decide(config: TrainConfig, facts: Facts) -> Job:
    """The job of a run. config: the settings as given. Raises UserError for what cannot be."""
    config.check_gradient()
    decisions = []
    for rule in RULES:
        if found := rule(config, facts):
            config = config.changed(**found.changes)
            decisions.append(found)
    views = facts.views
    held = validation.held_views(config, len(views.cameras), views.faces) if not facts.over else ()
    decay = facts.decay if validation.decays(config) else config.adam.opacity_decay
    return Job(
        config,
        views,
        facts.device.rasterizers,
        Schedule(config, bool(held), facts.frozen, facts.settled, decay),
        held,
        facts.part,
        facts.preferred,
        tuple(decisions),
    )
