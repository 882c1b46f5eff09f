"""Means that stay 0: what photographs or cameras have in common belongs to the scene, and is taken
after each step from the quantities that the table calls `centred`."""

from __future__ import annotations

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.tables import quantities
from hardsplat.tables.quantities import Of
from hardsplat.train.features.feature import Feature, StepParts

_KINDS: tuple[Of, ...] = ("photograph", "camera")  # their planes follow each other in the table


def _parts() -> StepParts:
    names = tuple(q.name for kind in _KINDS for q in quantities.of(kind) if q.centred)
    spec = {"FIRST_PLANE": quantities.plane_count("splat")}
    centre = ComputePass("centre", "optim/centre.comp", ("rates", *names), names, spec)
    planes = sum(map(quantities.plane_count, _KINDS))
    record = lambda r, run, *_: r.run(run["centre"], groups=(planes, 1, 1))  # noqa: E731
    return StepParts([centre], record={"moved": record})


FEATURE = Feature(
    "centred",
    lambda job: _parts() if any(q.centred for q in quantities.of_photographs(job.flat)) else None,
    lambda: [_parts()],
)
