"""Where the splats of a training are: all on the device, or out of core, where quantities that
spill lie in the host's memory and the device has the splats of one view whole."""

from __future__ import annotations

from dataclasses import replace

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import host_bytes, most_splats, out_of_core
from hardsplat.gpu.device.context import Device
from hardsplat.raster.backends import training_needs
from hardsplat.train.job.job import Job

# Share of the splats that a view is taken to show where no view was drawn yet. Large scenes have
# 0.4 to 5 % (CLM, Zhao et al. 2025, arXiv 2511.04951).
SHOWN = 0.05


def fitting(device: Device, job: Job, rasterizer: str, taken: int = 0, shown: float = SHOWN) -> int:
    """Most splats that the device holds in a training, by its memory and its limits alone.

    taken: bytes of other things there. shown: out of core, the share that a view shows at most.
    """
    degree, follows = job.config.model.sh_degree, job.strategy.follows
    each = training_needs(rasterizer, degree, job.moments, job.estimates, follows)
    if job.out_of_core:
        each = out_of_core(each, shown)
    return most_splats(each, device.memory_bytes, device.max_buffer, device.max_allocation, taken)


def placed(job: Job, device: Device, splats: int) -> Job:
    """The job with the place of its splats decided. splats: at first.

    Out of core, Adam leaves splats alone that a step does not see. Raises UserError where that
    cannot be.
    """
    wanted, planned = job.config.run.out_of_core, max(splats, job.densify.cap_max)
    if wanted == "off":
        return job
    lacks = "--gradient analytic" if job.estimates else device.killed.get("out of core", "")
    lacks = "another --background than sphere" if job.views.texels else lacks
    if lacks and wanted == "on":
        raise UserError(f"--out-of-core on needs {lacks}")
    if lacks:
        return job
    rasterizer = job.rasterizers[0]
    most = fitting(device, job, rasterizer)
    if wanted == "auto" and planned <= most:
        return job
    config = job.config.changed(out_of_core="on", visible_adam=True)
    outside = replace(job, config=config, out_of_core=True)
    degree = config.model.sh_degree
    host = host_bytes(training_needs(rasterizer, degree, job.moments)) * planned / 2**30
    if wanted == "auto":
        if (more := fitting(device, outside, rasterizer)) <= most:
            return job
        tqdm.write(
            f"note: {planned} splats are planned, {device.name} holds {most}: their higher colour "
            f"bands go to the host's memory ({host:.1f} GiB), for up to {more} splats "
            "(--out-of-core off: not)"
        )
    return outside
