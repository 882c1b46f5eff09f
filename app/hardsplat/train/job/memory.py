"""Where the splats of a training are. Steps draw all of them; or, packed, a working set of those
that they see; or, out of core, such a set while quantities that spill are in the host's memory."""

from __future__ import annotations

from dataclasses import replace

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import host_bytes, most_splats, packed
from hardsplat.gpu.device.context import Device
from hardsplat.raster.backends import training_needs
from hardsplat.train.job.job import Job

# Share of the splats that a view is taken to show where no view was drawn yet. Large scenes have
# 0.4 to 5 % (CLM, Zhao et al. 2025, arXiv 2511.04951).
SHOWN = 0.05


def fitting(device: Device, job: Job, rasterizer: str, taken: int = 0, shown: float = SHOWN) -> int:
    """Most splats that the device holds in a training, by its memory and its limits alone.

    taken: bytes of other things there. shown: packed, the share that a view shows at most.
    """
    degree, follows = job.config.model.sh_degree, job.strategy.follows
    each = training_needs(rasterizer, degree, job.moments, job.estimates, follows)
    if job.packed:
        each = packed(each, shown, job.out_of_core)
    return most_splats(each, device.memory_bytes, device.max_buffer, device.max_allocation, taken)


def placed(job: Job, device: Device, splats: int) -> Job:
    """The job with the place of its splats decided. splats: at first.

    Packed and out of core, Adam leaves splats alone that a step does not see. Raises UserError
    where that cannot be.
    """
    run, rasterizer = job.config.run, job.rasterizers[0]
    wanted, planned = run.out_of_core, max(splats, job.densify.cap_max)
    asked = ["--packed"] * run.packed + ["--out-of-core on"] * (wanted == "on")
    lacks = "--gradient analytic" if job.estimates else device.killed.get("working set", "")
    lacks = "another --background than sphere" if job.views.texels else lacks
    if lacks and asked:
        raise UserError(f"{asked[0]} needs {lacks}")
    own = _packed(job) if run.packed else job
    if wanted == "on":
        return _packed(job, out_of_core=True)
    if lacks or wanted == "off" or planned <= (most := fitting(device, own, rasterizer)):
        return own
    for form in (_packed(job), _packed(job, out_of_core=True)):
        if (more := fitting(device, form, rasterizer)) >= planned:
            break
    if more <= most:
        return own
    how = "steps copy those that they see (--packed)"
    if form.out_of_core:
        each = training_needs(rasterizer, job.config.model.sh_degree, job.moments)
        host = host_bytes(each) * planned / 2**30
        how = f"their higher colour bands go to the host's memory ({host:.1f} GiB)"
    tqdm.write(
        f"note: {planned} splats are planned, {device.name} holds {most}: {how}, for about {more} "
        "splats (--out-of-core off: not)"
    )
    return form


def _packed(job: Job, out_of_core: bool = False) -> Job:
    """The job whose steps draw a working set."""
    place = "on" if out_of_core else job.config.run.out_of_core
    config = job.config.changed(out_of_core=place, packed=True, visible_adam=True)
    return replace(job, config=config, packed=True, out_of_core=out_of_core)
