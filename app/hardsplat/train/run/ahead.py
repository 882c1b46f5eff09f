"""Pipelines of a training that are built by threads while photographs are read and while the first
steps are made, so that no step waits for them."""

from __future__ import annotations

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.pipelines import begin_all
from hardsplat.raster.backends import BACKENDS
from hardsplat.train.job.job import Job
from hardsplat.train.step.capture import PhotographPasses
from hardsplat.train.step.loss import METRIC_PASSES
from hardsplat.train.step.step import step_passes

# of a pixel, as long as no photograph has alpha; the passes of another number are built when they
# are needed
PHOTO_BYTES = 3


def build_ahead(device: Device, job: Job) -> None:
    """Begins with what a session of the job builds, for each of its rasterizers in turn, and what
    measures it.

    Nothing is lost where it builds other passes: it builds those itself. Raises UserError for what
    the device cannot run.
    """
    planes = (job.config.model.sh_degree + 1) ** 2
    for name in job.rasterizers:
        backend, options = BACKENDS[name], job.options(name)
        first = backend.first_runnable(device, options)
        if len(job.rasterizers) == 1 and first != options:
            continue  # the session will time what is left open, which takes the device
        sink = job.sink(bool(job.config.depth.depth_lambda))
        begin_all(device, backend.passes(device, planes, *job.views.canvas, first, sink))
        if name == job.rasterizers[0]:
            begin_all(device, step_passes(job, PhotographPasses(job), PHOTO_BYTES))
    begin_all(device, METRIC_PASSES)
