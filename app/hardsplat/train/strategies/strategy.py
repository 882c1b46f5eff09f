"""What a strategy of densification is: how the number of splats changes while they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.model.camera import Camera
from hardsplat.raster.core.protocols import Rasterizer
from hardsplat.settings.train import TrainConfig

Record = Callable[[Recorder, Mapping[str, Pipeline]], None]


class Growing(Protocol):
    """What a strategy may ask of the session before splats are added. bound: splats there are at
    most, known without waiting. capacity: that there is room for."""

    config: TrainConfig
    step: int
    bound: int

    @property
    def capacity(self) -> int: ...

    def count(self) -> int: ...  # splats there are; waits for all that was queued
    def planned(
        self, n: int
    ) -> int: ...  # splats that the recording "plan" wants to add to n; waits


class Strategy:
    """Splats stay what they are. A strategy is one module and one row of STRATEGIES.

    statistics: each step adds the gradients of positions on screen to grow_stats. scores: some
    steps draw scores after their gradients. resets: opacities are reset. follows: buffers of the
    contract, one element a splat, that it keeps from step to step; they grow with the splats and
    are saved.
    """

    statistics = scores = resets = False
    follows: tuple[str, ...] = ()

    def passes(self, moments: str, photo_bytes: int) -> tuple[ComputePass, ...]:
        """moments: how those of Adam are stored, a variant of MOMENT_FORMATS. photo_bytes: of a
        pixel in `photos`."""
        return ()

    def recordings(self) -> Mapping[str, Record]:
        """What is done between steps, by name, and what only measures."""
        return {}

    def due(self, config: TrainConfig, step: int) -> list[str]:
        """The recordings that are submitted after so many steps, in order."""
        return []

    def next_due(self, config: TrainConfig, step: int) -> int:
        """The first number of steps above `step` after which something may be due; max_steps where
        nothing will."""
        return config.run.max_steps

    def growth(self, session: Growing) -> tuple[int, int]:
        """Splats there are, and those that the next "densify" may leave, at most."""
        return session.bound, session.bound

    def settled(self, config: TrainConfig, cameras: Sequence[Camera], splats: int) -> TrainConfig:
        """The settings, with what was left to the scene. cameras: of the photographs that are
        trained on. splats: at the start."""
        return config

    def reached(self, config: TrainConfig) -> int:
        """Splats that growth is sure to reach, for which capacity is made at once; 0 where no one
        knows."""
        return 0

    def opacity_reg(self, config: TrainConfig, step: int) -> float:
        """What the weight of the mean opacity in the loss is more than the settings say, in the
        step after so many steps. It changes where something may be due."""
        return 0.0

    def scored(self, config: TrainConfig, step: int) -> bool:
        """Whether the step after so many steps draws scores."""
        return False

    def record_scores(
        self, recorder: Recorder, run: Mapping[str, Pipeline], raster: Rasterizer
    ) -> None:
        """Last of a step that draws scores."""

    def record_step(
        self, recorder: Recorder, run: Mapping[str, Pipeline], config: TrainConfig
    ) -> None:
        """Last of every step, after Adam."""


class Refining(Strategy):
    """Something is done every refine_every steps, between refine_start_iter and refine_stop_iter,
    and resets every reset_every steps."""

    def _open(self, config: TrainConfig, step: int) -> bool:
        return step < min(
            config.densify.refine_stop_iter, config.run.max_steps
        )  # after the last step nothing could heal what it changes

    def due(self, config: TrainConfig, step: int) -> list[str]:
        if not self._open(config, step):
            return []
        refined = (
            step > config.densify.refine_start_iter and step % config.densify.refine_every == 0
        )
        reset = (
            self.resets
            and config.densify.reset_every
            and step > 0
            and step % config.densify.reset_every == 0
        )
        return ["densify"] * refined + ["reset"] * bool(reset)

    def next_due(self, config: TrainConfig, step: int) -> int:
        if not self._open(config, step):
            return config.run.max_steps
        periods = (config.densify.refine_every, config.densify.reset_every if self.resets else 0)
        return min((step // p + 1) * p for p in periods if p)
