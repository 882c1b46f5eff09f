"""A working set in a training step, see hardsplat.raster.core.working: what moves splats at random
goes over the model, and means of the loss's terms are over it."""

from __future__ import annotations

from hardsplat.gpu.passes.declared import Fill
from hardsplat.raster.core.working import ON_MODEL
from hardsplat.train.features.feature import Feature, StepParts

_FILLS = (
    Fill("noise", bind=ON_MODEL),
    Fill("loss reduce", {"alive": "working/alive.glsl"}, ("model_counts",)),
)
FEATURE = Feature(
    "working set",
    lambda job: StepParts(fills=_FILLS) if job.packed else None,
    lambda: [StepParts(fills=_FILLS)],
)
