"""What a training step does for photographs that differ: passes behind the loss, and around
Adam."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.sinks import record_others
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.tables.quantity import Of
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


class Capture:
    """items: how many photographs and cameras there are. extent: of the scene, world units. frozen:
    the splats stay as they are, poses alone move.

    depths: what is known of the photographs' depth, which is the capture's from here on."""

    def __init__(
        self,
        config: TrainConfig,
        items: Mapping[Of, int],
        extent: float,
        frozen: bool = False,
        depths: Depths | None = None,
    ):
        self.config, self.frozen, self.depths = config, frozen, depths
        self.moving = {
            kind: n for kind, n in items.items() if quantities.chosen(kind, config.flat())
        }  # kinds of which something is trained
        self.cameras = items.get("camera", 1)
        self._exposing = exposure_passes(config.exposure.exposure, self.cameras)
        self._posing = pose_passes(extent, frozen) if config.poses.pose_opt else ()
        self._centred = any(q.centred for q in quantities.chosen("photograph", config.flat()))

    def passes(self) -> list[ComputePass]:
        """With those that begin and end a step."""
        ends, depth = (
            schedule_passes(self.config.poses.pose_opt, self.config.intrinsics.intrinsics_opt),
            [DEPTH_PASS] if self.depths else [],
        )
        intrinsics = [INTRINSICS_PASS] if self.config.intrinsics.intrinsics_opt else []
        return [
            *ends,
            *self._posing,
            *intrinsics,
            *depth,
            *self._exposing,
            *([centre_pass()] if self._centred else []),
        ]

    def record_compared(
        self,
        recorder: Recorder,
        run: Mapping[str, Pipeline],
        record_loss: Callable[[Recorder], None],
    ) -> None:
        """target -> the loss -> d_image."""
        record_loss(recorder)
        if self._exposing:
            record_exposure_gradients(recorder, run)

    def compare_depth(
        self, run: Mapping[str, Pipeline], width: int, height: int
    ) -> Callable[[Recorder], None] | None:
        """What records the loss of depth of a canvas of width x height px; None where nothing is
        known of depth."""
        return (
            (lambda recorder: record_depth_loss(recorder, run, width, height))
            if self.depths
            else None
        )

    def record_moved(
        self, recorder: Recorder, run: Mapping[str, Pipeline], adam: Mapping[str, Pipeline]
    ) -> None:
        """A step of Adam for photographs and cameras. adam: the pipelines of the rasterizer."""
        if self._posing:
            record_pose_gradients(recorder, run)
        if self.config.intrinsics.intrinsics_opt:
            record_intrinsics_gradient(recorder, run)
        record_others(recorder, adam, self.moving)
        if self._posing:
            record_settled(recorder, run)
        if self._centred:
            record_centred(recorder, run)
