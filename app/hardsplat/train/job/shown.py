"""Whether photographs show the points of the model that a run begins with."""

from __future__ import annotations

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.settings.train import TrainConfig

MOST_HIDDEN = 0.05  # of the points that photographs show, nearer than --near-plane without a note


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
