"""A region of the scene that a run trains in detail: splats are added there."""

from __future__ import annotations

from hardsplat.gpu.passes.declared import Fill
from hardsplat.model.region import Region
from hardsplat.train.features.feature import Feature, StepParts


def _parts(region: Region) -> StepParts:
    slots = {"region": "densify/budget/region.glsl"}
    fill = Fill("densify tickets", slots, ("means",), spec=region.constants())
    return StepParts(fills=[fill])


FEATURE = Feature(
    "region",
    lambda job: _parts(job.part.region) if job.part.region else None,
    lambda: [_parts(Region.of((0, 0, 0, 1)))],
)
