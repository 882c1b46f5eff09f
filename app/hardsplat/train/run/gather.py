"""What is known of a run before its first step, from its scene and device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import Scene
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.facts import WHOLE, DeviceFacts, Facts, ScenePart
from hardsplat.train.job.place import Place
from hardsplat.train.job.views import training_views
from hardsplat.train.step.intrinsics import check_lenses
from hardsplat.train.watchers.log import Log

MOST_HIDDEN = 0.05  # of the points that photographs show, nearer than --near-plane without a note


def gather(
    config: TrainConfig,
    scene: Scene,
    device: Device,
    splats: int,
    log: Log,
    part: ScenePart = WHOLE,
    place: Place | None = None,
) -> Facts:
    """splats: at first. log: of the run so far. part, place: of the scene that is trained. Raises
    UserError for what the device cannot run, and for photographs that do not show the points."""
    if config.intrinsics.intrinsics_opt:
        check_lenses(scene.views)
    views, points = training_views(scene), scene.points
    share, depths = views.shown(points)
    if len(points) and config.start.init is None and config.start.init_type == "sfm":
        check_points(config, depths)
    return Facts(
        views,
        DeviceFacts.of(device, config),
        splats,
        len(points),
        share,
        replace(part, region=place.region) if place else part,
        place.preferred(scene) if place else (),
        settled=log.settled,
        decay=log.looks[-1].decay if log.looks else 0.0,
    )


def check_points(config: TrainConfig, depths: np.ndarray) -> None:
    """Prints a note where --near-plane hides many of the first splats. depths: of points, in the
    views that show them, world units. Raises UserError where no view shows a point."""
    near, advice = config.scene.near_plane, "cameras and points do not belong together"
    hidden = float(np.mean(depths < near)) if len(depths) else 1.0
    if len(depths):
        advice = f"choose {0.1 * np.quantile(depths, 0.01):.1g} or so"
    if hidden == 1:
        nearer = f" that is farther than --near-plane {near:g}" * bool(len(depths))
        what = f"no training photograph shows a point of the model{nearer}"
        raise UserError(f"{config.scene.data_dir}: {what}; {advice}")
    if hidden > MOST_HIDDEN:
        what = f"{100 * hidden:.0f} % of the points that photographs show are nearer than"
        tqdm.write(f"note: {what} --near-plane {near:g}, which hides them: {advice}")
