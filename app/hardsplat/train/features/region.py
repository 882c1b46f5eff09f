"""A region of the scene that a run trains in detail: where it is, which photographs show it, and
splats that are added there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.gpu.passes.declared import Fill
from hardsplat.model.camera import Camera
from hardsplat.model.region import COARSE, Region
from hardsplat.settings.scene import SceneSettings
from hardsplat.train.features.feature import Feature, StepParts

if TYPE_CHECKING:  # the build of a wheel, which lists the passes, has no readers of pictures
    from hardsplat.io.scenes.scene import Scene

# share of a region that a photograph must show, or of itself that the region must cover, to be
# drawn twice as often
SEEN, COVERS = 0.25, 0.2


@dataclass(frozen=True)
class TrainedRegion:
    """region: where splats grow. shown: indices into the training views that show it. points:
    of the scene inside."""

    region: Region
    shown: tuple[int, ...] = ()
    points: int = 0

    def about(self, means: np.ndarray) -> dict[str, Any]:
        """What metrics.json says of it. means: (N, 3) of the trained splats."""
        inside = int(self.region.inside(means).sum())
        where = {name: getattr(self.region, name) for name in ("low", "high", "centre", "radius")}
        return where | {"splats": inside, "of": len(means), "photographs": len(self.shown)}

    def preferred(self, scene: Scene) -> tuple[int, ...]:
        """The training views that are drawn twice as often: those that show it, unless all do."""
        return self.shown if len(self.shown) < len(scene.train) else ()

    def note(self, scene: Scene) -> str:
        where = f"where {self.points:,} of {len(scene.points):,} points are"
        seen = f"{len(self.shown)} of {len(scene.train)} photographs show it"
        drawn = " and are drawn twice as often" * bool(self.preferred(scene))
        more = f"splats are {1 / COARSE:.0f} times as likely to be added in this place"
        return f"--region: {more}, {where}; {seen}{drawn}"


def region_of(settings: SceneSettings, scene: Scene) -> TrainedRegion | None:
    """The region that the settings name. Raises UserError for none that the scene has."""
    if not settings.region:
        return None
    region = Region.of(settings.region)
    inside = region.inside(scene.points)
    if len(scene.points) and not inside.any():
        low, high = np.quantile(scene.points, [0.05, 0.95], axis=0)
        ends = " to ".join(",".join(f"{x:.3g}" for x in end) for end in (low, high))
        raise UserError(f"--region: no point of the scene is in it; most are in {ends}")
    places = np.concatenate([scene.points[inside], region.samples()])
    cameras = [scene.views[i].camera for i in scene.train]
    shown = tuple(i for i, camera in enumerate(cameras) if _shows(camera, places))
    if not shown:
        raise UserError("--region: no training photograph shows it")
    return TrainedRegion(region, shown, int(inside.sum()))


def _shows(camera: Camera, places: np.ndarray) -> bool:
    """Whether a photograph shows much of (N, 3) places, or little else; what stands before them is
    not looked at."""
    _, at, depths = camera.pixels(places)
    if not len(depths):
        return False
    covered = np.prod(np.ptp(at, axis=1) + 1) / (camera.width * camera.height)
    return len(depths) >= SEEN * len(places) or bool(covered >= COVERS)


def _parts(region: Region) -> StepParts:
    slots = {"region": "densify/budget/region.glsl"}
    fill = Fill("densify tickets", slots, ("means",), spec=region.constants())
    return StepParts(fills=[fill])


FEATURE = Feature(
    "region",
    lambda job: _parts(job.part.region) if job.part.region else None,
    lambda: [_parts(Region.of((0, 0, 0, 1)))],
)
