"""Features of training by name: a feature is one module and one row here, in the order in which
they record their passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from hardsplat.gpu.passes.declared import ComputePass, filled
from hardsplat.train.features import depth, exposure, intrinsics, poses, region, sky, working
from hardsplat.train.features.feature import Feature, Found, StepParts

if TYPE_CHECKING:
    from hardsplat.io.scenes.scene import Scene
    from hardsplat.step.photos import Photos
    from hardsplat.train.job.job import Job

_MODULES = (sky, poses, intrinsics, exposure, depth, region, working)
FEATURES: tuple[Feature, ...] = tuple(module.FEATURE for module in _MODULES)


def parts_of(job: Job) -> list[StepParts]:
    """What the step of a job has of its features."""
    return [parts for feature in FEATURES if (parts := feature.parts(job))]


def facts_of(job: Job, scene: Scene, photos: Photos) -> dict[str, np.ndarray]:
    """What is known of the job's photographs, by contract name. Raises UserError."""
    having = (f.facts for f in FEATURES if f.facts and f.parts(job))
    return {name: values for facts in having for name, values in facts(job, scene, photos).items()}


def save_found(found: Found) -> None:
    """Leaves what features have found in the result folder. Raises UserError where a file cannot
    be written."""
    for feature in FEATURES:
        if feature.save and feature.parts(found.job):
            feature.save(found)


def variants(passes: Iterable[ComputePass]) -> Iterator[ComputePass]:
    """Each pass as it is, and with every combination of features' fills."""
    out = [*passes]
    for feature in FEATURES:
        out += [p for parts in feature.every() if parts.fills for p in filled(out, parts.fills)]
    return iter({p.key(): p for p in out}.values())
