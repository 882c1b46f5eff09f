"""What a training of a part of a scene is given by a training of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardsplat.model.region import Region


@dataclass(frozen=True)
class ScenePart:
    """region: where splats may grow, by default everywhere. exposures: (planes, items, width) by
    quantity of photographs and cameras, which were found on the whole scene and stay as they are.
    reports: the run makes a report of its own."""

    region: Region | None = None
    exposures: Mapping[str, np.ndarray] = field(default_factory=dict)
    reports: bool = False


WHOLE = ScenePart(reports=True)
