"""The sky in a training step, see hardsplat.raster.core.sky: its gradient follows the loss."""

from __future__ import annotations

from hardsplat import contract
from hardsplat.raster.core.sky import behind_pass, gather_passes, record_gather
from hardsplat.tables.photographs import LENSES
from hardsplat.train.features.feature import Feature, StepParts


def _parts(lens: str, texels: int) -> StepParts:
    return StepParts(
        gather_passes(lens),
        buffers={"sky_sums": 4 * texels * contract.itemsize("sky_sums")},
        record={"compared": lambda r, run, w, h: record_gather(r, run, w, h, texels)},
    )


FEATURE = Feature(
    "sky",
    lambda job: _parts(job.views.lens, job.items["texel"]) if job.items["texel"] else None,
    lambda: [StepParts([behind_pass(lens), *gather_passes(lens)]) for lens in LENSES],
)
