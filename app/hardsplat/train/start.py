"""The splats that a training begins with."""

from __future__ import annotations

import numpy as np

from hardsplat import morton
from hardsplat.config import TrainConfig
from hardsplat.gaussians import Gaussians
from hardsplat.io.scene import Scene


def starts_random(config: TrainConfig, scene: Scene) -> bool:
    return config.init_type == "random" or not len(scene.points)


def initial_gaussians(config: TrainConfig, scene: Scene) -> Gaussians:
    """Splats at the SfM points, or random ones in a cube.

    Neighbours are visible together, so they stand together in memory, and those that they grow mostly do as well (docs/RESULTS.md has what that saves).
    """
    rng = np.random.default_rng(config.seed)
    if starts_random(config, scene):
        points = rng.uniform(-config.init_extent, config.init_extent, (config.init_num_pts, 3))
        colors = rng.integers(0, 256, (config.init_num_pts, 3))
    else:
        points, colors = scene.points, scene.colors
    order = morton.order_by_rank(points)
    points, colors = points[order], colors[order]
    gaussians = Gaussians.from_points(points, colors, config.sh_degree, config.init_opa)
    gaussians.scales = gaussians.scales * np.float32(config.init_scale)
    return gaussians
