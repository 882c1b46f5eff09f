"""What a training step does for photographs that differ: passes behind the loss, and around
Adam."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.sinks import record_others
from hardsplat.tables import quantities
from hardsplat.train.job.job import Job
from hardsplat.train.step.depths import DEPTH_PASS, Depths, record_depth_loss
from hardsplat.train.step.exposure import (
    centre_pass,
    exposure_passes,
    record_centred,
    record_exposure_gradients,
)
from hardsplat.train.step.intrinsics import INTRINSICS_PASS, record_intrinsics_gradient
from hardsplat.train.step.poses import pose_passes, record_pose_gradients, record_settled
from hardsplat.train.step.schedule import schedule_passes

RecordPasses = Callable[[Recorder], None]


class PhotographPasses:
    """depths: what is known of the photographs' depth, which belongs to this object from here
    on."""

    def __init__(self, job: Job, depths: Depths | None = None):
        c, items, flat = job.config, job.views.items, job.flat
        self.frozen, self.depths, self.cameras = job.frozen, depths, items["camera"]
        # kinds of which something is trained
        self.moving = {kind: n for kind, n in items.items() if quantities.chosen(kind, flat)}
        poses, self._focusing = c.poses.pose_opt, c.intrinsics.intrinsics_opt
        self._exposing = exposure_passes(c.exposure.exposure, self.cameras)
        self._posing = pose_passes(job.extent, job.frozen) if poses else ()
        self._centred = any(q.centred for q in quantities.chosen("photograph", flat))
        self._ends = schedule_passes(poses, self._focusing)

    def passes(self) -> list[ComputePass]:
        """With those that begin and end a step."""
        return [
            *self._ends,
            *self._posing,
            *([INTRINSICS_PASS] if self._focusing else []),
            *([DEPTH_PASS] if self.depths else []),
            *self._exposing,
            *([centre_pass()] if self._centred else []),
        ]

    def record_compared(
        self, recorder: Recorder, run: Mapping[str, Pipeline], record_loss: RecordPasses
    ) -> None:
        """target -> the loss -> d_image."""
        record_loss(recorder)
        if self._exposing:
            record_exposure_gradients(recorder, run)

    def compare_depth(
        self, run: Mapping[str, Pipeline], width: int, height: int
    ) -> RecordPasses | None:
        """The function that records the loss of depth of a canvas of width x height px; None where
        no depth is known."""
        if not self.depths:
            return None
        return lambda recorder: record_depth_loss(recorder, run, width, height)

    def record_moved(
        self, recorder: Recorder, run: Mapping[str, Pipeline], adam: Mapping[str, Pipeline]
    ) -> None:
        """A step of Adam for photographs and cameras. adam: the pipelines of the rasterizer."""
        if self._posing:
            record_pose_gradients(recorder, run)
        if self._focusing:
            record_intrinsics_gradient(recorder, run)
        record_others(recorder, adam, self.moving)
        if self._posing:
            record_settled(recorder, run)
        if self._centred:
            record_centred(recorder, run)
