"""Poses of held-out photographs, refined against splats that stay as they are: what is measured
then is the scene, not where the model says they were taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.views import View, load_images
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.settings.train import TrainConfig
from hardsplat.step.photos import Photos
from hardsplat.train.features.poses import moved
from hardsplat.train.job.facts import DeviceFacts, Facts, Views, canvas_of
from hardsplat.train.job.job import Job, decide
from hardsplat.train.session.session import Session

STEPS_A_VIEW = 100
# of a pose, rad and scene extents, and of ppisp
RATES = {"pose_lr": 1e-3, "pose_warm_up": 1, "exposure_lr": 0.01, "ppisp_warm_up": 1}


def refining_job(
    device: Device,
    run: TrainConfig,
    rasterizer: str,
    views: Sequence[View],
    extent: float,
    gaussians: Gaussians,
) -> Job:
    """STEPS_A_VIEW steps a view that refine poses against fixed splats, drawn and compared as in a
    run. With exposures in the run, those of the photographs are found at the same time.

    extent: of the scene, world units. gaussians: the splats.
    """
    cameras, numbers = [view.camera for view in views], [view.number for view in views]
    stochastic = run.gradient.gradient == "stochastic"
    settings = run.changed(
        max_steps=STEPS_A_VIEW * len(views),
        strategy="none",
        region=(),  # which belongs to strategies that grow
        gradient="analytic" if stochastic else run.gradient.gradient,
        sh_degree=gaussians.sh_degree,
        sh_degree_interval=1,
        pose_opt=True,
        intrinsics_opt=False,
        depth_lambda=0.0,
        packed=False,
        out_of_core="auto",
        **RATES,
    )
    facts = replace(DeviceFacts.of(device, settings), rasterizers=(rasterizer,))
    shown = Views(cameras, canvas_of(cameras), extent, numbers)
    return decide(settings, Facts(shown, facts, frozen=True))


def refine_held_out(
    device: Device,
    job: Job,
    views: Sequence[View],
    gaussians: Gaussians,
    stopped: Callable[[], bool] = bool,
) -> list[Camera]:
    """The cameras of a refining_job, moved to where the splats show most of their photographs.

    stopped: once it returns true, the list is empty. Raises OutOfMemory where a second session does
    not fit.
    """
    r, degree = job.config.run, job.config.model.sh_degree
    images = list(load_images(views, progress=not r.quiet))
    photos = Photos(device, images, r.images, ring=2 * r.batch_steps, fetches=True)
    session = Session(device, job, photos, lambda batch: None)
    try:
        # all bands are in use from here on
        session.restore(replace(session.initial(gaussians), step=degree))
        while session.step < job.schedule.steps:
            if stopped():
                return []
            session.run(min(session.batch_steps, job.schedule.steps - session.step))
        return moved(job.views.cameras, session.snapshot().buffers)
    finally:
        session.destroy()
