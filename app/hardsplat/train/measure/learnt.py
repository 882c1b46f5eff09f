"""What a run has found of its photographs: exposures.json, intrinsics.json, poses/ and masks/, and
whether colours of held-out views differ."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.files import LONGEST
from hardsplat.io.formats.checkpoint import RESIDUALS, Checkpoint
from hardsplat.io.media.images import save_png
from hardsplat.io.media.panorama import Face
from hardsplat.io.scenes.lens import Lens
from hardsplat.io.scenes.masks import FOLDER, enlarged, read_kept
from hardsplat.io.scenes.poses import FOLDER as POSES
from hardsplat.io.scenes.poses import save_poses
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.scenes.views import View, size_of
from hardsplat.model.camera import Camera
from hardsplat.train.job.job import Job
from hardsplat.train.measure.fitted import LEARNT, UNEVEN, gain
from hardsplat.train.measure.measure import Measured
from hardsplat.train.step.exposure import NAME, save_exposures
from hardsplat.train.step.intrinsics import focused_scene, save_intrinsics
from hardsplat.train.step.poses import moved
from hardsplat.train.step.transient import ignored_pixels


def save_learnt(
    folder: Path, job: Job, scene: Scene, state: Checkpoint, held_out: Sequence[Camera]
) -> None:
    """held_out: refined cameras of the held-out views; with none, they stay as they are. Raises
    UserError where a file cannot be written."""
    c, buffers, views = job.config, state.buffers, scene.views
    if c.transient.transient == "masks":
        for residuals, i in zip(buffers[RESIDUALS][0], scene.train, strict=True):
            save_mask(folder / FOLDER, views[i], ignored_pixels(residuals, *size_of(views[i])))
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
        save_poses(folder / POSES, scene, cameras, c.scene.data_dir)


def save_mask(folder: Path, view: View, ignored: np.ndarray) -> None:
    """NAME.png of the photograph's own size, in the form that scenes have: black where something
    moves, by `ignored` (H, W) of the view's size, and where the mask of the view is. Of a face of
    a panorama, one of the face."""
    keep = np.where(ignored, np.uint8(0), np.uint8(255))
    if view.mask is not None:
        keep = np.minimum(keep, read_kept(view.mask, *size_of(view), view.lens))
    face = isinstance(view.lens, Face)
    if isinstance(view.lens, Lens):
        keep = view.lens.distort(keep)
    own = size_of(view) if face or not view.stored else view.stored
    path = folder / f"{view.name}.png"
    if len(os.fsencode(path.name)) > LONGEST:  # Masks finds this name as well
        path = (folder / view.name).with_suffix(".png")
    save_png(path, enlarged(keep, *own))


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
