"""What a run has found of its photographs: exposures.json, intrinsics.json and poses/, and
whether colours of held-out views differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.poses import FOLDER, save_poses
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera
from hardsplat.train.job.job import Job
from hardsplat.train.measure.fitted import LEARNT, UNEVEN, gain
from hardsplat.train.measure.measure import Measured
from hardsplat.train.step.exposure import NAME, save_exposures
from hardsplat.train.step.intrinsics import focused_scene, save_intrinsics
from hardsplat.train.step.poses import moved


def save_learnt(
    folder: Path, job: Job, scene: Scene, state: Checkpoint, held_out: Sequence[Camera]
) -> None:
    """held_out: refined cameras of the held-out views; with none, they stay as they are. Raises
    UserError where a file cannot be written."""
    c, buffers, views = job.config, state.buffers, scene.views
    if c.exposure.corrected:
        names = [scene.views[i].name for i in scene.train]
        save_exposures(folder / NAME, c.exposure.exposure, buffers, names)
    if c.intrinsics.intrinsics_opt:
        save_intrinsics(folder, buffers["intrinsics"][0])
        views = focused_scene(scene, buffers["intrinsics"][0]).views
    if c.poses.pose_opt or c.intrinsics.intrinsics_opt:
        cameras = [view.camera for view in views]
        found = [*moved([cameras[i] for i in scene.train], buffers), *held_out]
        changed = [*scene.train, *(scene.test if held_out else ())]
        for i, camera in zip(changed, found, strict=True):
            cameras[i] = camera
        save_poses(folder / FOLDER, scene, cameras, c.scene.data_dir)


def unevenness(m: Measured) -> float:
    """dB that fitted colours gain in a view, 0 where that means little: of a scene that has hardly
    been optimized, any map of colours is a gain."""
    image = m.image
    before, after = gain(image, m.photo) if image is not None else (0.0, 0.0)
    return after - before if after > LEARNT else 0.0


def uneven(gains: Sequence[float]) -> str:
    """The note on photographs that differ in exposure, "" where they do not seem to."""
    mean = float(np.mean(gains)) if gains else 0.0
    what = "so photographs seem to differ in exposure: try --exposure ppisp"
    return f"note: fitted colours gain {mean:.1f} dB, {what}" if mean > UNEVEN else ""
