"""What is known of a training before its first step: views, device, scene, an earlier run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from hardsplat.contract.footprint import SHOWN, most_splats, packed
from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera, in_view
from hardsplat.model.region import Region
from hardsplat.raster.backends import runnable_rasterizers, training_needs
from hardsplat.raster.core.frame import camera_data
from hardsplat.raster.core.sinks import moments_of
from hardsplat.raster.trials import worth_timing
from hardsplat.settings.train import TrainConfig
from hardsplat.train.strategies import STRATEGIES

POINTS = 4_000  # most of a sample
TOGETHER = 32  # cameras that are looked at in one go


@dataclass(frozen=True)
class Views:
    """The views that a session trains on, without their photographs.

    canvas: width and height, px, that hold every view. extent: of the scene, world units. numbers:
    which of the scene's physical cameras took each view, counted from 0; by default one took all.
    distorted: other cameras that the session's rasterizer draws distort, as these may.
    faces: views of each photograph, one after the other. depth: how far the views look, world
    units: the median of their median depths of the scene's points; infinite where no points tell.
    """

    cameras: Sequence[Camera]
    canvas: tuple[int, int]
    extent: float
    numbers: Sequence[int] = ()
    distorted: bool = False
    faces: int = 1
    depth: float = math.inf

    @property
    def lens(self) -> Literal["pinhole", "distorted"]:
        """Which cameras the rasterizer takes."""
        bent = self.distorted or any(camera.distortion for camera in self.cameras)
        return "distorted" if bent else "pinhole"

    def depths(self, points: np.ndarray) -> list[np.ndarray]:
        """For each view, the depths of those of a sample of points (N, 3) that its image shows,
        whether or not others hide them, world units."""
        sample, depths = points[:: len(points) // POINTS + 1], []
        for first in range(0, len(self.cameras), TOGETHER):
            inside, depth = in_view(self.cameras[first : first + TOGETHER], sample)
            depths += [each[shown] for each, shown in zip(depth, inside)]
        return depths

    def packed(self) -> np.ndarray:
        """The contract's Camera struct of each view."""
        numbers = self.numbers or [0] * len(self.cameras)
        return np.stack(
            [camera_data(c, number=n) for c, n in zip(self.cameras, numbers, strict=True)]
        )


def canvas_of(cameras: Sequence[Camera]) -> tuple[int, int]:
    """Width and height that hold the images of all cameras, px."""
    return max(c.width for c in cameras), max(c.height for c in cameras)


def training_views(scene: Scene) -> Views:
    """The views that a scene has for training, for a canvas that holds those held out as well."""
    cameras, train = [view.camera for view in scene.views], [scene.views[i] for i in scene.train]
    faces = set(Counter(view.group for view in train).values())
    return Views(
        [view.camera for view in train],
        canvas_of(cameras),
        scene.extent,
        [view.number for view in train],
        distorted=any(camera.distortion for camera in cameras),
        faces=faces.pop() if len(faces) == 1 else 1,
    )


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
        names = runnable_rasterizers(device, config.raster, config.gradient)
        return cls(
            device.name,
            tuple(worth_timing(device, config.raster, config.gradient, names)),
            moments_of(device, config.adam.moments),
            device.memory_bytes,
            device.max_buffer,
            device.max_allocation,
            device.killed.get("working set", ""),
        )


def fitting(
    device: Device | DeviceFacts, config: TrainConfig, rasterizer: str, taken: int = 0
) -> int:
    """Most splats that the device holds in a training, by its memory and its limits alone.

    config: as decided. taken: bytes of other things there.
    """
    degree, statistics = config.model.sh_degree, STRATEGIES[config.densify.strategy].statistics
    each = training_needs(
        rasterizer, degree, config.adam.moments, config.gradient.estimates, statistics
    )
    if config.run.packed:
        each = packed(each, SHOWN, config.run.out_of_core == "on")
    return most_splats(each, device.memory_bytes, device.max_buffer, device.max_allocation, taken)


@dataclass(frozen=True)
class ScenePart:
    """What a training of a part of a scene is given by a training of the whole.

    region: where splats may grow, by default everywhere. known: (planes, items, width) by
    quantity of photographs and cameras, which were found on the whole scene and stay as they are.
    reports: the run makes a report of its own."""

    region: Region | None = None
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    reports: bool = False


WHOLE = ScenePart(reports=True)


class NearPlane(NamedTuple):
    """A near plane, world units, for a scene that is too small for the default. why: in words."""

    plane: float
    why: str


@dataclass(frozen=True)
class Facts:
    """splats: at first. part: of the scene that is trained. preferred: views that every epoch has
    twice. frozen: the splats stay as they are, poses alone move. near_plane: that the scene needs,
    where the settings leave it to the scene and it needs another.

    Photographs that were held back, so far: settled: the step at which they ended the main phase;
    0: they have not. over: they have been trained, so that they tell nothing any more. decay: which
    they gave opacities. color_gains: dB by a fit of colours, of each look that compared light; none
    before the last of them.
    """

    views: Views
    device: DeviceFacts
    splats: int = 0
    part: ScenePart = WHOLE
    preferred: tuple[int, ...] = ()
    frozen: bool = False
    near_plane: NearPlane | None = None
    settled: int = 0
    over: bool = False
    decay: float = 0.0
    color_gains: tuple[float, ...] = ()
