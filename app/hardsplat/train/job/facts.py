"""What is known of a training before its first step: device, scene, photographs, an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.model.region import Region
from hardsplat.raster.backends import running
from hardsplat.raster.core.choose import timing_enabled
from hardsplat.raster.core.sinks import moments_of
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.views import Views


@dataclass(frozen=True)
class DeviceFacts:
    """rasterizers: those that run there, the first one at first. moments: how those of Adam are
    stored, a variant of MOMENT_FORMATS. lacks: what steps that draw a working set need, and have
    not."""

    name: str
    rasterizers: tuple[str, ...]
    moments: str
    memory_bytes: float
    max_buffer: float
    max_allocation: float
    lacks: str = ""

    @classmethod
    def of(cls, device: Device, config: TrainConfig) -> DeviceFacts:
        """What these settings ask of the device. Raises UserError for what it cannot run."""
        names = running(device, config.raster, config.gradient)
        return cls(
            device.name,
            tuple(names if timing_enabled() else names[:1]),
            moments_of(device, config.adam.moments),
            device.memory_bytes,
            device.max_buffer,
            device.max_allocation,
            device.killed.get("working set", ""),
        )


@dataclass(frozen=True)
class ScenePart:
    """What a training of a part of a scene is given by a training of the whole.

    region: where splats may grow, by default everywhere. exposures: (planes, items, width) by
    quantity of photographs and cameras, which were found on the whole scene and stay as they are.
    reports: the run makes a report of its own."""

    region: Region | None = None
    exposures: Mapping[str, np.ndarray] = field(default_factory=dict)
    reports: bool = False


WHOLE = ScenePart(reports=True)


@dataclass(frozen=True)
class Facts:
    """splats: at first. points: of the model, 0 without one. seen: share of them that a view shows
    in the mean. part: of the scene that is trained. preferred: views that every epoch has twice.
    frozen: the splats stay as they are, poses alone move.

    Photographs that were held back, so far: settled: the step at which they ended the main phase;
    0: they have not. decay: which they gave opacities. color_gains: dB by a fit of colours,
    of them and of trained photographs; none before they are measured.
    """

    views: Views
    device: DeviceFacts
    splats: int = 0
    points: int = 0
    seen: float = 1.0
    part: ScenePart = WHOLE
    preferred: tuple[int, ...] = ()
    frozen: bool = False
    settled: int = 0
    decay: float = 0.0
    color_gains: tuple[float, ...] = ()
