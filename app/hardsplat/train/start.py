"""The splats that a training begins with."""

from __future__ import annotations

import numpy as np

from hardsplat.config import TrainConfig
from hardsplat.gaussians import Gaussians
from hardsplat.io.scene import Scene


def starts_random(config: TrainConfig, scene: Scene) -> bool:
    return config.init_type == "random" or not len(scene.points)


def morton_order(points: np.ndarray) -> np.ndarray:
    """(N,) the rows of (N, 3) points such that neighbours in space stand side by side: by their ranks along the axes, bits interleaved.

    Ranks, because far points would squeeze the others together.
    """
    ranks = points.argsort(axis=0).argsort(axis=0) * 1024 // max(len(points), 1)
    return sum((ranks >> bit & 1) << 3 * bit for bit in range(10)).dot([1, 2, 4]).argsort(kind="stable")


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
    order = morton_order(points)
    points, colors = points[order], colors[order]
    gaussians = Gaussians.from_points(points, colors, config.sh_degree, config.init_opa)
    gaussians.scales = gaussians.scales * np.float32(config.init_scale)
    return gaussians
