"""The session of a run: its photographs, and pipelines that threads build meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from hardsplat.base.clock import PhaseClock
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.pipelines import begin_all
from hardsplat.raster.backends import BACKENDS
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES
from hardsplat.step.photos import Photos
from hardsplat.step.runner import BatchResult
from hardsplat.train.features import facts_of, parts_of
from hardsplat.train.job.job import Job
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.session.session import Session
from hardsplat.train.step.step import step_passes

# of a pixel, as long as no photograph has alpha; the passes of another number are built when they
# are needed
PHOTO_BYTES = 3


def build_ahead(device: Device, job: Job) -> None:
    """Has threads begin with the pipelines that a session of the job builds, for each of its
    rasterizers in turn, and those that measure it.

    Nothing is lost where it builds other passes: it builds those itself. Raises UserError for what
    the device cannot run.
    """
    planes = (job.config.model.sh_degree + 1) ** 2
    for name in job.rasterizers:
        backend, options = BACKENDS[name], job.options(name)
        first = backend.first_runnable(device, options)
        if len(job.rasterizers) == 1 and first != options:
            continue  # the session will time what is left open, which takes the device
        sink = job.sink()
        begin_all(device, backend.passes(device, planes, *job.views.canvas, first, sink))
        if name == job.rasterizers[0]:
            begin_all(device, step_passes(job, job.schedule, parts_of(job), PHOTO_BYTES))
    begin_all(device, (*METRIC_PASSES, *FITTED_PASSES))


def open_session(
    device: Device,
    job: Job,
    loader: PhotographLoader,
    on_batch: Callable[[BatchResult], None],
    clock: PhaseClock,
) -> Session:
    """Buffers and commands of the training. Pipelines are built by threads while the last
    photographs are read. on_batch: see Session."""
    c = job.config
    build_ahead(device, job)
    clock.begin("load")
    images = list(loader.training(c.run.quiet))
    loader.look_for_blur(images, c.run.quiet)
    timed = len(job.rasterizers) < 2
    ring, fetches = 2 * c.run.batch_steps, not c.depth.depth_lambda
    photos = Photos(device, images, c.run.images, ring, fetches)
    clock.begin("setup")
    return Session(device, job, photos, on_batch, facts_of(job, loader.scene, photos), timed)
