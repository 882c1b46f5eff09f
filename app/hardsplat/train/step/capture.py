"""What a training step does for photographs that differ: passes behind the loss, and around
Adam."""

from __future__ import annotations

from collections.abc import Callable

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.raster.core.sinks import record_others
from hardsplat.raster.core.sky import gather_passes, record_gather
from hardsplat.raster.working.passes import WORKING_FILLS
from hardsplat.tables import quantities
from hardsplat.train.job.job import Job
from hardsplat.train.step.depths import DEPTH_PASS, Depths
from hardsplat.train.step.exposure import CENTRED, centre_pass, exposure_fills, exposure_passes
from hardsplat.train.step.intrinsics import INTRINSICS_FILL, INTRINSICS_PASS
from hardsplat.train.step.poses import POSE_FILL, pose_passes
from hardsplat.train.strategies.refine import region_fills
from hardsplat.train.strategies.strategy import Pipelines

RecordPasses = Callable[[Recorder], None]
GROUP = contract.CONSTANTS["GROUP"]


class PhotographPasses:
    """depths: what is known of the photographs' depth, which belongs to this object from here
    on."""

    def __init__(self, job: Job, depths: Depths | None = None):
        c, items, flat = job.config, job.views.items, job.flat
        self.frozen, self.depths, self.cameras = job.frozen, depths, items["camera"]
        # kinds of which something is trained
        self.moving = {kind: n for kind, n in items.items() if quantities.chosen(kind, flat)}
        poses, intrinsics = c.poses.pose_opt, c.intrinsics.intrinsics_opt
        self._exposing = exposure_passes(c.exposure.exposure, self.cameras)
        self._posing = pose_passes(job.extent, job.frozen) if poses else ()
        self._focusing = [INTRINSICS_PASS] if intrinsics else []
        centred = any(q.centred for q in quantities.chosen("photograph", flat))
        self._centring = [centre_pass()] if centred else []
        self._sky, self._canvas = items["texel"], job.views.canvas
        self._gathering = gather_passes(job.views.lens) if self._sky else []
        self.fills = [
            *exposure_fills(c.exposure.exposure, self.cameras),
            *[POSE_FILL] * poses,
            *[INTRINSICS_FILL] * intrinsics,
            *(region_fills(job.part.region) if job.part.region else ()),
            *(WORKING_FILLS if job.packed else ()),
        ]

    def passes(self) -> list[ComputePass]:
        depth = [DEPTH_PASS] if self.depths else []
        posing = (*self._posing, *self._focusing)
        others = (*self._exposing, *self._centring, *self._gathering)
        return [*posing, *depth, *others]

    def record_compared(
        self, recorder: Recorder, run: Pipelines, record_loss: RecordPasses
    ) -> None:
        """target -> the loss -> d_image, and gradients of exposures from exposure_sums, of the
        sky from d_image."""
        record_loss(recorder)
        if self._sky:
            record_gather(recorder, run, *self._canvas, self._sky)
        if self._exposing:
            recorder.run(run["expose gather"], threads=(GROUP,))

    def compare_depth(self, run: Pipelines, width: int, height: int) -> RecordPasses | None:
        """The function that records the loss of depth of a canvas of width x height px, target (sum
        w z, sum w) -> d_image; None where no depth is known."""
        if not self.depths:
            return None
        return lambda recorder: recorder.run(run["loss depth"], threads=(width, height))

    def record_moved(self, recorder: Recorder, run: Pipelines, adam: Pipelines) -> None:
        """A step of Adam for photographs and cameras, from camera_sums and gradients of exposures.
        adam: the pipelines of the rasterizer."""
        if self._posing:
            recorder.run(run["pose gather"], threads=(GROUP,))
        if self._focusing:
            recorder.run(run["intrinsics gather"], threads=(GROUP,))
        record_others(recorder, adam, self.moving)
        if self._posing:
            recorder.run(run["pose settle"], threads=(GROUP,))
        if self._centring:
            planes = sum(quantities.plane_count(kind) for kind in CENTRED)
            recorder.run(run["centre"], groups=(planes, 1, 1))
