"""Features of training by name: a feature is one module and one row here, in the order in which
they record their passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.gpu.passes.declared import ComputePass, filled
from hardsplat.train.features import (
    centred,
    depth,
    exposure,
    intrinsics,
    poses,
    region,
    sky,
    working,
)
from hardsplat.train.features.feature import Feature, Found, StepParts

if TYPE_CHECKING:
    from hardsplat.io.scenes.scene import Scene
    from hardsplat.step.photos import Photos
    from hardsplat.train.job.job import Job

_MODULES = (sky, poses, intrinsics, exposure, centred, depth, region, working)
FEATURES: tuple[Feature, ...] = tuple(module.FEATURE for module in _MODULES)


def parts_of(job: Job) -> list[StepParts]:
    """What the step of a job has of its features. Raises UserError where two fill one slot."""
    having = {feature.name: parts for feature in FEATURES if (parts := feature.parts(job))}
    taken: dict[tuple[str, str], str] = {}
    for name, parts in having.items():
        for where in sorted(parts.slots):
            if (other := taken.setdefault(where, name)) != name:
                both = f"both fill <{where[1]}> of {where[0]}"
                raise UserError(f"{other} and {name} exclude each other, {both}: leave out one")
    return [*having.values()]


def inputs_of(job: Job, scene: Scene, photos: Photos) -> dict[str, np.ndarray]:
    """What is known of the job's photographs, by contract name. Raises UserError."""
    found: dict[str, np.ndarray] = {}
    for feature in FEATURES:
        if feature.inputs and feature.parts(job):
            found |= feature.inputs(job, scene, photos)
    return found


def save_found(found: Found) -> None:
    """Leaves what features have found in the result folder. Raises UserError where a file cannot
    be written."""
    for feature in FEATURES:
        if feature.save and feature.parts(found.job):
            feature.save(found)


def variants(passes: Iterable[ComputePass]) -> Iterator[ComputePass]:
    """Each pass as it is, and with every combination of features' fills that parts_of takes."""
    out: list[tuple[ComputePass, set[tuple[str, str]]]] = [(p, set()) for p in passes]
    for parts in (parts for feature in FEATURES for parts in feature.every() if parts.fills):
        free = [(p, taken) for p, taken in out if not taken & parts.slots]
        more = filled([p for p, _ in free], parts.fills)
        out += [(p, taken | parts.slots) for p, (_, taken) in zip(more, free, strict=True)]
    return iter({p.key(): p for p, _ in out}.values())
