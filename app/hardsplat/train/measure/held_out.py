"""Poses of held-out photographs, refined against splats that stay as they are: what is measured
then is the scene, not where the model says they were taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hardsplat.gpu.device.context import Device
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.scenes.views import View, load_images
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.settings.train import TrainConfig
from hardsplat.train.session.session import Session
from hardsplat.train.step.photos import Photos
from hardsplat.train.step.poses import moved
from hardsplat.train.step.views import Views

STEPS_A_VIEW = 100
RATE, LAST_RATE = 1e-3, 1e-5  # of a pose, rad and scene extents


def refine_held_out(
    device: Device,
    config: TrainConfig,
    gaussians: Gaussians,
    scene: Scene,
    indices: Sequence[int],
    stopped: Callable[[], bool] = bool,
) -> list[Camera]:
    """The cameras of these views of a scene, moved to where the splats show most of their
    photographs. config: the run's, which says how the splats are drawn.

    With exposures in the run, those of the photographs are found at the same time. stopped: once it
    says so, the list is empty. Raises OutOfMemory where a second session does not fit.
    """
    views: list[View] = [scene.views[i] for i in indices]
    config = config.changed(
        pose_opt=True,
        intrinsics_opt=False,
        depth_lambda=0.0,
        strategy="none",
        max_steps=STEPS_A_VIEW * len(views),
        pose_lr=RATE,
        pose_lr_final=LAST_RATE,
        pose_warm_up=1,
        ppisp_warm_up=1,
        ppisp_lr=0.01,
        ppisp_lr_final=0.001,
        sh_degree=gaussians.sh_degree,
        sh_degree_interval=1,
        resume=False,
        ckpt=None,
    )
    cameras = [view.camera for view in views]
    canvas = max(c.width for c in cameras), max(c.height for c in cameras)
    photos = Photos(
        device,
        list(load_images(views, progress=not config.run.quiet)),
        config.run.images,
        ring=2 * config.run.batch_steps,
        fetches=True,
    )
    config = config.changed(batch_steps=min(config.run.batch_steps, photos.most_steps))
    session = Session(
        device,
        config,
        Views(cameras, canvas, scene.extent, [view.number for view in views]),
        photos,
        lambda batch: None,
        frozen=True,
    )
    try:
        first = Checkpoint.initial(gaussians, config.model.sh_degree, session.items)
        session.restore(
            replace(first, step=config.model.sh_degree)
        )  # all bands are in use from here on
        while session.step < config.run.max_steps:
            if stopped():
                return []
            session.run(min(config.run.batch_steps, config.run.max_steps - session.step))
        return moved(cameras, session.snapshot().buffers)
    finally:
        session.destroy()
