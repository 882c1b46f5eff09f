"""What a run has learnt of its photographs: exposures.json, intrinsics.json and poses/, and
held-out views measured from refined poses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.poses import FOLDER as POSES
from hardsplat.io.scenes.poses import save_poses
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.protocols import Rasterizer
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.camera_colors import CameraColors
from hardsplat.train.measure.fitted import LEARNT, UNEVEN, gain
from hardsplat.train.measure.held_out import refine_held_out
from hardsplat.train.measure.measure import Measured, measure_all, summary
from hardsplat.train.step.exposure import NAME, save_exposures
from hardsplat.train.step.intrinsics import focused_scene, save_intrinsics
from hardsplat.train.step.poses import moved


def save_learnt(
    folder: Path, config: TrainConfig, scene: Scene, state: Checkpoint, held_out: Sequence[Camera]
) -> None:
    """held_out: refined cameras of the held-out views; with none, they stay as they are. Raises
    UserError where a file cannot be written."""
    if config.exposure.exposure != "none":
        save_exposures(
            folder / NAME,
            config.exposure.exposure,
            state.buffers,
            [scene.views[i].name for i in scene.train],
        )
    if config.intrinsics.intrinsics_opt:
        save_intrinsics(folder, state.buffers["intrinsics"][0])
    if config.poses.pose_opt or config.intrinsics.intrinsics_opt:
        changed = (
            focused_scene(scene, state.buffers["intrinsics"][0])
            if config.intrinsics.intrinsics_opt
            else scene
        )
        cameras = [view.camera for view in changed.views]
        found = moved([cameras[i] for i in scene.train], state.buffers)
        for i, camera in zip(
            [*scene.train, *(scene.test if held_out else ())], [*found, *held_out], strict=True
        ):
            cameras[i] = camera
        save_poses(folder / POSES, scene, cameras, config.scene.data_dir)


def measure_refined(
    device: Device,
    config: TrainConfig,
    gaussians: Gaussians,
    scene: Scene,
    raster: Rasterizer,
    frame: np.ndarray,
    stopped: Callable[[], bool],
    colors: CameraColors,
) -> tuple[list[Camera], dict]:
    """The cameras of held-out views where the splats show most of them, and the summary of their
    measurement from there; nothing once `stopped` says so.

    Raises OutOfMemory where a second session does not fit.
    """
    cameras = refine_held_out(device, config, gaussians, scene, scene.test, stopped)
    measures = []
    for m in (
        measure_all(
            device,
            raster,
            scene.held_out,
            frame,
            config.run.quiet,
            cameras=cameras,
            fitted=True,
            colors=colors,
        )
        if cameras
        else ()
    ):
        measures.append(replace(m, target=None))
        if stopped():
            return [], {}
    return cameras, summary(measures) if measures else {}


def unevenness(m: Measured) -> float:
    """dB that fitted colours gain in a view, 0 where that says little: of a scene that has hardly
    been learnt, any map of colours is a gain."""
    image = m.image
    before, after = gain(image, m.photo) if image is not None else (0.0, 0.0)
    return after - before if after > LEARNT else 0.0


def uneven(gains: Sequence[float]) -> str:
    """The note on photographs that differ in exposure, "" where they do not seem to."""
    mean = float(np.mean(gains)) if gains else 0.0
    return (
        f"note: fitted colours gain {mean:.1f} dB, so photographs seem to differ in "
        "exposure: try --exposure ppisp"
        if mean > UNEVEN
        else ""
    )
