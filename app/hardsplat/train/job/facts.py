"""What is known of a training before its first step: device, scene, photographs, an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardsplat.contract.footprint import SHOWN, most_splats, packed
from hardsplat.gpu.device.context import Device
from hardsplat.model.region import Region
from hardsplat.raster.backends import running, training_needs
from hardsplat.raster.core.choose import timing_enabled
from hardsplat.raster.core.sinks import moments_of
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.views import Views
from hardsplat.train.strategies import STRATEGIES


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


def fitting(
    device: Device | DeviceFacts,
    config: TrainConfig,
    rasterizer: str,
    taken: int = 0,
    shown: float = SHOWN,
) -> int:
    """Most splats that the device holds in a training, by its memory and its limits alone.

    config: as decided. taken: bytes of other things there. shown: packed, the share that a view
    shows at most.
    """
    degree, follows = config.model.sh_degree, STRATEGIES[config.densify.strategy].follows
    each = training_needs(
        rasterizer, degree, config.adam.moments, config.gradient.estimates, follows
    )
    if config.run.packed:
        each = packed(each, shown, config.run.out_of_core == "on")
    return most_splats(each, device.memory_bytes, device.max_buffer, device.max_allocation, taken)


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
