"""What a strategy of densification is: how the number of splats changes while they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.model.camera import Camera
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.settings.densify import DensifySettings

Pipelines = Mapping[str, Pipeline]
Record = Callable[[Recorder, Pipelines], None]


class Growing(Protocol):
    """What a strategy may ask of the splats before some are added. bound: most there can be, known
    without waiting. capacity: that there is room for."""

    bound: int

    @property
    def capacity(self) -> int: ...
    def count(self) -> int: ...  # splats there are; waits for all that was queued


@dataclass(frozen=True)
class Strategy:
    """Splats stay what they are. A strategy is one module and one row of STRATEGIES.

    settings: with --cap-max resolved by `budget`. steps: of the run.
    statistics: each step adds the gradients of positions on screen to grow_stats. scores: some
    steps draw scores after their gradients. resets: opacities are reset. follows: buffers of the
    contract, one element a splat, that it keeps from step to step; they grow with the splats and
    are saved. recordings: what is done between steps, by name, and what only measures.
    """

    settings: DensifySettings
    steps: int
    statistics: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    resets: ClassVar[bool] = False
    follows: ClassVar[tuple[str, ...]] = ()
    recordings: ClassVar[Mapping[str, Record]] = {}

    @staticmethod
    def passes(moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        """moments: how those of Adam are stored, a variant of MOMENT_FORMATS. photo_bytes: of a
        pixel in `photos`."""
        return ()

    @staticmethod
    def budget(
        settings: DensifySettings, cameras: Sequence[Camera], splats: int, points: int
    ) -> int:
        """Most splats, 0 for what fits. cameras: of the training photographs. splats: at first.
        points: of the model, 0 without one."""
        return settings.cap_max

    def due(self, step: int) -> list[str]:
        """The recordings that are submitted after so many steps, in order."""
        return []

    def next_due(self, step: int) -> int:
        """The first number of steps above `step` after which something may be due; the steps of
        the run where nothing will."""
        return self.steps

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

    def record_scores(self, recorder: Recorder, run: Pipelines, raster: Rasterizer) -> None:
        """Records the end of a step that draws scores."""

    def record_step(self, recorder: Recorder, run: Pipelines) -> None:
        """Records the end of every step, after Adam."""


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
