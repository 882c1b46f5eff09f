"""What photographs show of the model's points, and what a run leaves to that."""

from __future__ import annotations

import math

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.settings.presets import for_photographs
from hardsplat.settings.train import FIELDS, TrainConfig
from hardsplat.train.job.views import Views

# Share of the points that a photograph shows, below which splats rest in steps that do not show
# them. Adam's steps are as long as the gradient is certain: a splat that one step of fifteen shows
# would make steps of four times that length.
FEW_SHOWN = 0.25
MOST_HIDDEN = 0.05  # of the points that photographs show, nearer than --near-plane without a note
# Epochs and steps of such a run, whichever are more: few photographs show a place, and splats have
# soon learned what is theirs alone.
FEW_EPOCHS, FEW_STEPS = 56, 8_000


def _check_shown(config: TrainConfig, depths: np.ndarray) -> None:
    """A note where --near-plane hides many of the first splats. depths: of points in the views that
    show them, world units. Raises UserError where no view shows a point."""
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


def decided(config: TrainConfig, views: Views, points: np.ndarray) -> TrainConfig:
    """The settings with what they leave to the model's points (N, 3), in world units: whether
    splats rest in steps that do not show them, and whether the run is short."""
    share, depths = views.shown(points)
    if len(points) and config.start.init is None and config.start.init_type == "sfm":
        _check_shown(config, depths)
    if config.adam.visible_adam is not None:
        return config
    if share >= FEW_SHOWN:
        return config.changed(visible_adam=False)
    own: dict[str, int] = {"visible_adam": True}
    flags = "--visible-adam"
    photographs = len(views.cameras)
    epochs = max(FEW_EPOCHS, math.ceil(FEW_STEPS / photographs))
    planned = for_photographs(config, photographs).run.max_steps
    asked = config.run.max_epochs != FIELDS["max_epochs"].default  # for another length
    if not asked and epochs * photographs < planned:
        own |= {"max_epochs": epochs, "overfit_check": 0}
        flags += f" --max-steps {epochs * photographs} --overfit-check 0"
    tqdm.write(
        f"note: a photograph shows {100 * share:.0f} % of the points, so splats rest in steps "
        f"that do not show them: {flags} (--no-visible-adam: they do not)"
    )
    return config.changed(**own)
