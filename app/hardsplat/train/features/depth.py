"""The loss of depth in a training step: disparities that are known, with the photographs on the
device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.train.features.feature import Feature, StepParts

if TYPE_CHECKING:
    from hardsplat.io.scenes.scene import Scene
    from hardsplat.step.photos import Photos
    from hardsplat.train.job.job import Job
    from hardsplat.train.job.schedule import Schedule

LAST = 0.01  # share of the weight that is left at max_steps
_LARGEST = 6e4  # that a float16 holds
_LOSS = ComputePass(
    "loss depth",
    "photographs/depth_loss.comp",
    reads=("target", "depth_settings", "disparities", "depth_shares", "camera", "frame"),
    writes=("d_image",),
)


def depth_settings(
    weight: float, steps: int, extent: float, falls: tuple[int, int] | None = None
) -> np.ndarray:
    """The contract's DepthSettings struct. weight: of the first step, which falls to LAST of it in
    so many steps. falls: steps from and to which it falls faster, to the same end, if it does."""
    first, last, until = weight, weight * LAST, steps
    if falls:
        # the curve of first and last that is at `now` after `since` steps
        since, until = falls
        now = weight * LAST ** (since / steps)
        first = now * (now / last) ** (since / (until - since))
    return contract.struct("DepthSettings", weight=first, last=last, until=until, extent=extent)


_PARTS = StepParts(
    [_LOSS], record={"depth": lambda r, run, *size: r.run(run["loss depth"], threads=size)}
)


def _parts(job: Job) -> StepParts | None:
    weight = job.config.depth.depth_lambda

    def settings(schedule: Schedule) -> dict[str, np.ndarray]:
        steps, extent = job.config.run.max_steps, job.views.extent
        return {"depth_settings": depth_settings(weight, steps, extent, schedule.falls)}

    return replace(_PARTS, settings=settings) if weight else None


def _inputs(job: Job, scene: Scene, photos: Photos) -> dict[str, np.ndarray]:
    """What is known of the depth of training views. Raises UserError where photographs are
    streamed, or nothing is known."""
    from tqdm import tqdm

    from hardsplat.io.scenes.depths import known_disparities
    from hardsplat.settings.train import scene_folder

    if photos.streamed:
        raise UserError(
            "--depth-lambda needs the photographs on the device, where they do not fit: "
            "raise --data-factor"
        )
    known, label = known_disparities(scene_folder(job.config.scene.data_dir), scene, scene.train)
    tqdm.write(f"note: {label} are in the loss")
    return depth_inputs(known, job.views.extent, photos)


def depth_inputs(
    known: Sequence[np.ndarray], extent: float, photos: Photos
) -> dict[str, np.ndarray]:
    """known: (H, W) of each training view, 1 / world units, 0 where it is not known."""
    flat = np.zeros(-(-photos.pixels // 2) * 2, np.float16)
    counts = np.zeros(len(known))
    for i, each in enumerate(known):
        scaled = np.minimum(each * np.float32(extent), _LARGEST).astype(np.float16)
        start, counts[i] = photos.place(0, i), np.count_nonzero(scaled)
        flat[start : start + scaled.size] = scaled.reshape(-1)
    return {"disparities": flat, "depth_shares": (1 / np.maximum(counts, 1)).astype(np.float32)}


FEATURE = Feature("depth", _parts, lambda: [_PARTS], _inputs)
