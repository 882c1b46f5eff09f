"""What a feature of training is: what it knows of photographs, adds to a step, and leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Fill, Pipeline

if TYPE_CHECKING:  # the build of a wheel, which lists the passes, has no readers of pictures
    from hardsplat.io.scenes.scene import Scene
    from hardsplat.model.camera import Camera
    from hardsplat.step.photos import Photos
    from hardsplat.train.job.job import Job
    from hardsplat.train.job.schedule import Schedule

# Where a feature records passes in a step: when its camera is known, instead of the loss of an
# image that shows depth, after the loss, before Adam for all but splats, and after it.
When = Literal["begun", "depth", "compared", "gradients", "moved"]
# the width and height of the canvas, px, follow the pipelines by name
Record = Callable[[Recorder, Mapping[str, Pipeline], int, int], None]


@dataclass(frozen=True)
class StepParts:
    """What a feature adds to a step. fills: of passes that a step has anyhow. buffers: what they
    hold at first by contract name, or so many bytes of zeros. settings: what steps read that
    follows from the schedule."""

    passes: Sequence[ComputePass] = ()
    fills: Sequence[Fill] = ()
    buffers: Mapping[str, np.ndarray | int] = field(default_factory=dict)
    record: Mapping[When, Record] = field(default_factory=dict)
    settings: Callable[[Schedule], Mapping[str, np.ndarray]] | None = None

    @property
    def slots(self) -> set[tuple[str, str]]:
        return {(fill.name, slot) for fill in self.fills for slot in fill.slots}


@dataclass(frozen=True)
class Found:
    """What a run has found. buffers: of its checkpoint. held_out: refined cameras of the held-out
    views, if they were refined."""

    folder: Path
    job: Job
    scene: Scene
    buffers: Mapping[str, np.ndarray]
    held_out: Sequence[Camera]


@dataclass(frozen=True)
class Feature:
    """A row of FEATURES. parts: what the step of a job has of it; None where the job is without it.
    every: parts of each kind, with sizes and constants as they come, for those who build all
    passes.

    inputs: what is known of a scene's photographs before the first step, as buffers for all steps.
    save: leaves files in the result folder. Both raise UserError.
    """

    name: str
    parts: Callable[[Job], StepParts | None]
    every: Callable[[], Iterable[StepParts]]
    inputs: Callable[[Job, Scene, Photos], Mapping[str, np.ndarray]] | None = None
    save: Callable[[Found], None] | None = None


def one_group(name: str) -> Record:
    """Records the pass of that name with one workgroup."""
    return lambda recorder, run, width, height: recorder.run(run[name], groups=(1, 1, 1))
