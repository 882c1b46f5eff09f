"""What a strategy of densification is, how the number of splats changes while they are trained; and
what strategies share: settings, scratch, ranks of flagged splats, the splats that are removed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.model.camera import Camera
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.settings.densify import DensifySettings
from hardsplat.tables import quantities
from hardsplat.tables.formats import MOMENT_FORMATS

Pipelines = Mapping[str, Pipeline]
GROUP = int(contract.CONSTANTS["GROUP"])
RANKS = ("flags", "flag_sums")
SCAN = ComputePass("densify scan", "densify/scan.comp", ("counts", "flag_sums"), ("flag_sums",))
# flags and flag_sums of the living, as densify/mark.glsl makes them -> counts.splats and what
# follows from it; places of the living alone
PRUNING = ("densify scan", "densify holes", "densify fill", "densify pruned")
RESET = ("reset opacity",)
# passes of a single workgroup
_ONE_GROUP = {
    "densify scan",
    "densify admit",
    "thin admit",
    "densify grown",
    "densify pruned",
    "mcmc resize",
    "resort next",
}
_FADED = ("logit_opacities", "adam_logit_opacities")
# of the contract's RefineSettings, settings of the same name
_SAME = ["prune_opa", "grow_grad2d", "grow_scale3d", "grow_absolute", "reset_every"]
# mean absolute gradient, NDC, down to which splats may split where those above `grow_absolute` are
# fewer than there is room for
GROW_LEAST = 7.5e-5
RESET_OPACITY = 0.01  # the most that a reset leaves


class Growing(Protocol):
    """What a strategy may ask of the splats before some are added. bound: most there can be, known
    without waiting. capacity: that there is room for."""

    bound: int

    @property
    def capacity(self) -> int: ...
    def count(self) -> int: ...  # splats there are; waits for all that was queued


# power of the progress of growth that the number of splats follows: the root, as in Improved-GS
# (Deng et al. 2025); where photographs may end a run early, its splats must be there sooner
GROWTH, EARLY_GROWTH = 0.5, 0.25


@dataclass(frozen=True)
class Strategy:
    """Splats stay what they are. A strategy is one module and one row of STRATEGIES.

    settings: with --cap-max resolved by `budget`. steps: of the run. growth_power: of progress,
    which a number of splats that is known from the start follows.
    grows: each step adds the gradients of positions on screen to grow_stats. scores: some
    steps draw scores before their gradients. resets: opacities are reset. by_extent: rates of
    positions are shares of the extent, as published, also where photographs show what is nearer,
    see Job.reach. statistics: buffers of
    the contract, one element a splat, that it keeps from step to step; they grow with the splats
    and are saved. actions: the passes of what is done between steps, by name, and of what only
    measures; they take parameters, moments, counts.splats and indirect.splat_groups as a step
    leaves them, and leave the same. after_adam: passes at the end of every step.
    """

    settings: DensifySettings
    steps: int
    growth_power: float = GROWTH
    grows: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    resets: ClassVar[bool] = False
    by_extent: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = ()
    actions: ClassVar[Mapping[str, Sequence[str]]] = {}
    after_adam: ClassVar[Sequence[str]] = ()

    @staticmethod
    def passes(moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        """moments: how those of Adam are stored, a variant of MOMENT_FORMATS. photo_bytes: of a
        pixel in `photos`."""
        return ()

    @staticmethod
    def budget(settings: DensifySettings, cameras: Sequence[Camera], splats: int) -> int:
        """Most splats, 0 for what fits. cameras: of the training photographs. splats: at first."""
        return settings.cap_max

    def due(self, step: int) -> list[str]:
        """The actions that are submitted after so many steps, in order."""
        return []

    def next_due(self, step: int) -> int:
        """The first number of steps above `step` after which something may be due; the steps of
        the run where nothing will."""
        return self.steps

    def fixed_from(self, step: int) -> int:
        """The first number of steps, `step` or more, after which nothing is due before the last
        one: splats stay the same ones from there on."""
        while step < self.steps and (due := self.next_due(step)) < self.steps:
            step = due
        return step

    def prunings(self) -> list[int]:
        """Steps after which splats are pruned towards a number that is to be left."""
        return []

    def growth(self, step: int, splats: Growing, planned: Callable[[int], int]) -> int:
        """The most splats that the next "densify" may leave. planned: how many "plan" wants to add
        to so many; waits."""
        return splats.bound

    def reached(self) -> int:
        """Splats that growth is sure to reach, for which capacity is made at once; 0 if unknown."""
        return 0

    def opacity_reg(self, step: int) -> float:
        """What is added to the weight of the mean opacity in the loss of the step after so many. It
        changes where something may be due."""
        return 0.0

    def scored(self, step: int) -> bool:
        """Whether the step after so many steps draws scores."""
        return False

    def record_score(
        self, recorder: Recorder, run: Pipelines, raster: Rasterizer, score: str
    ) -> None:
        """Records a draw of SCORES, while d_splats2d is clean, and leaves it so. `weighted`
        replaces d_image, `absolute` reads it."""


class Refining(Strategy):
    """Something is done every refine_every steps, between refine_start_iter and refine_stop_iter,
    and resets every reset_every steps."""

    def _open(self, step: int) -> bool:
        # after the last step nothing could heal what it changes
        return step < min(self.settings.refine_stop_iter, self.steps)

    def due(self, step: int) -> list[str]:
        c = self.settings
        if not self._open(step):
            return []
        refined = step > c.refine_start_iter and step % c.refine_every == 0
        reset = self.resets and c.reset_every and step > 0 and step % c.reset_every == 0
        return ["densify"] * refined + ["reset"] * bool(reset)

    def next_due(self, step: int) -> int:
        if not self._open(step):
            return self.steps
        periods = (self.settings.refine_every, self.settings.reset_every if self.resets else 0)
        return min((step // p + 1) * p for p in periods if p)


def splat_planes() -> tuple[str, ...]:
    """What moves with a splat: all its numbers and their moments."""
    return *quantities.values(), *quantities.moments()


def slots_of(moments: str) -> dict[str, str]:
    """moments: how they are stored, a variant of MOMENT_FORMATS."""
    return {"moments": MOMENT_FORMATS[moments].slot}


def resize(grown: bool) -> ComputePass:
    """The number of splats after growth, or after pruning."""
    name, spec = f"densify {'grown' if grown else 'pruned'}", {"GROWN": grown}
    reads, writes = ("counts", *RANKS), ("counts", "indirect")
    return ComputePass(name, "densify/resize.comp", reads, writes, spec)


def pruning_passes(moments: str, statistics: str, slot: str, ages: bool) -> tuple[ComputePass, ...]:
    """Passes that make a dense array of flagged splats, which stay. statistics: the buffer of them
    that the strategy keeps. slot: the file that moves these. ages: something is left of them."""
    planes, slots = splat_planes(), {**slots_of(moments), "statistics": slot}
    reads = ("counts", "holes", *((statistics,) if ages else ()), *RANKS, *planes)
    return (
        ComputePass("densify holes", "densify/holes.comp", ("counts", *RANKS), ("holes",)),
        ComputePass("densify fill", "densify/fill.comp", reads, (statistics, *planes), slots=slots),
        resize(grown=False),
    )


def reset_pass(moments: str) -> ComputePass:
    """Opacities of all splats := at most RESET_OPACITY, their moments := 0."""
    reads, slots = ("refine_settings", "counts", *_FADED), slots_of(moments)
    return ComputePass("reset opacity", "densify/reset.comp", reads, _FADED, slots=slots)


def record_passes(recorder: Recorder, run: Pipelines, names: Iterable[str]) -> None:
    """One after the other, each over all splats or, of _ONE_GROUP, in a single workgroup."""
    for name in names:
        if name in _ONE_GROUP:
            recorder.run(run[name], groups=(1, 1, 1))
        else:
            recorder.run(run[name], indirect="splat_groups")


def budget_of(settings: DensifySettings) -> int:
    """Splats at the end of growth."""
    return settings.cap_max or 1_000_000


def refine_settings(strategy: Strategy, extent: float) -> np.ndarray:
    """The contract's RefineSettings struct. extent: scene radius, world units.

    The noise is an area times a length: in units of the scene's extent it is alike in metres and in
    centimetres.
    """
    settings = strategy.settings
    flat, most = settings.flat(), settings.budget.grow_absolute
    return contract.struct(
        "RefineSettings",
        **{name: flat[name] for name in _SAME},
        extent=extent,
        noise_lr=settings.mcmc.noise_lr / extent**2,
        budget=budget_of(settings),
        first_step=settings.refine_start_iter,
        last_step=settings.refine_stop_iter,
        growth=strategy.growth_power,
        grow_least=min(GROW_LEAST, most),
        reset_opacity=RESET_OPACITY,
        thinned=settings.budget.prune_to ** (1 / max(len(strategy.prunings()), 1)),
    )


def allocate_refine(
    device: Device, capacity: int, without: Container[str] = ()
) -> dict[str, Buffer]:
    """Scratch for up to `capacity` splats, which is the capacity that `counts` must hold: 8 bytes a
    splat. ticket_counts and turn are zero. without: buffers that are there."""
    sizes = {
        "flags": capacity,
        "flag_sums": -(-capacity // GROUP) + 1,
        "holes": capacity,
        "ticket_counts": int(contract.CONSTANTS["TICKETS"]),
        "admitted": 1,
        "turn": 1,
    }
    nbytes = contract.nbytes({name: n for name, n in sizes.items() if name not in without})
    buffers = allocate_all(device, nbytes)
    for name in ("ticket_counts", "turn"):
        buffers[name].fill(0)
    return buffers
