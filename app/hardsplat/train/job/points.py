"""What the points of a model say of a run that begins with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.job import Job
from hardsplat.train.job.views import Views
from hardsplat.train.strategies.budget import budget_for

Say = Callable[[str, str], None]  # keeps a decision and its reason with the result

MOST_HIDDEN = 0.05  # of the points that photographs show, nearer than --near-plane without a note
# Adam's first moments are means over the last ten steps or so. A splat that fewer than one step in
# ten shows would move by the momentum of single photographs.
RARELY = 0.1


def with_rest(config: TrainConfig, views: Views, points: np.ndarray, say: Say) -> TrainConfig:
    """The settings with `visible_adam` decided by the model's points (N, 3), in world units: splats
    rest in steps that do not show them where a view shows few points. Raises UserError where the
    run begins with points that no view shows."""
    share, depths = views.shown(points)
    if len(points) and config.start.init is None and config.start.init_type == "sfm":
        check_shown(config, depths)
    if config.adam.visible_adam is not None:
        return config
    if share < RARELY:
        shown = f"a photograph shows {100 * share:.0f} % of the points"
        say("splats rest in steps that do not show them", shown)
    return config.changed(visible_adam=share < RARELY)


def say_budget(job: Job, splats: int, points: int, say: Say) -> None:
    """Says how many splats there may be, where the settings leave it to the scene. splats: at
    first. points: of the model."""
    cameras, most = job.views.cameras, job.densify.cap_max
    if job.densify.strategy != "budget" or job.config.densify.cap_max:
        return
    why = ""
    if most <= splats:
        why = ", as many as at first"
    elif points and most < budget_for(cameras):
        why = f", since the model has {points / len(cameras):.0f} points a photograph"
    say(f"at most {most} splats{why}", f"{len(cameras)} training photographs")


def check_shown(config: TrainConfig, depths: np.ndarray) -> None:
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
