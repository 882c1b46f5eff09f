"""Splats to write into files, and what two sets of them differ by."""

from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import save_splats
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.settings.presets import save_config
from hardsplat.settings.train import TrainConfig


def some_splats(n=1500, degree=3, seed=0, size=0.03):
    """Splats as a training leaves them: small, of all shapes, colours mostly within 0..1."""
    rng = np.random.default_rng(seed)
    sh = rng.normal(0, 0.1, (n, (degree + 1) ** 2, 3))
    sh[:, 0] = (rng.uniform(0, 1, (n, 3)) - 0.5) / SH_C0
    scales = np.exp(rng.normal(np.log(size), 0.7, (n, 3)))
    means, quats = rng.normal(0, 2, (n, 3)), rng.normal(size=(n, 4))
    return Gaussians(means, quats, scales, rng.uniform(0.01, 0.99, n), sh)


def points_of(scene: Path, step=1, opacity=0.95) -> Gaussians:
    """Every so many points of a scene, as splats of SH degree 1."""
    opened = load_scene(scene)
    return Gaussians.from_points(opened.points[::step], opened.colors[::step], 1, opacity)


def result_of(folder: Path, g: Gaussians, antialiased: bool = False, **settings) -> Path:
    """A result folder of these splats, as a run with these settings leaves it."""
    save_splats(folder / "splats.ply", g, antialiased)
    save_config(TrainConfig.of(antialiased=antialiased, **settings).flat(), folder / "config.toml")
    return folder


def covariances(g: Gaussians) -> np.ndarray:
    """(N, 3, 3) float64."""
    M = rotations(g.quats) * g.scales[:, None, :]
    return M @ M.transpose(0, 2, 1)


def rotations(quats) -> np.ndarray:
    """(N, 3, 3) float64 of quaternions wxyz."""
    return Rotation.from_quat(np.asarray(quats, np.float64), scalar_first=True).as_matrix()


def leaf_of(meta: dict) -> dict:
    """The first leaf of a tree of levels."""
    node = meta["tree"]
    while "children" in node:
        node = node["children"][0]
    return node


def differences(a: Gaussians, b: Gaussians) -> dict[str, float]:
    """The largest between each splat of `a` and the nearest of `b`, of which there must be as
    many. shape: of covariances, relative to their size, which 99 in 100 splats stay below.
    shN: root mean square."""
    assert len(a) == len(b) and a.sh.shape == b.sh.shape
    _, which = cKDTree(b.means).query(a.means)
    assert len(set(which)) == len(a), "splats were mixed up"
    ca, cb = covariances(a), covariances(b)[which]
    size, rest = np.linalg.norm(ca, axis=(1, 2)), a.sh[:, 1:] - b.sh[which, 1:]
    return {
        "means": float(np.abs(a.means - b.means[which]).max()),
        "shape": float(np.quantile(np.linalg.norm(ca - cb, axis=(1, 2)) / size, 0.99)),
        "opacities": float(np.abs(a.opacities - b.opacities[which]).max()),
        "sh0": float(np.abs(a.sh[:, 0] - b.sh[which, 0]).max()),
        "shN": float(np.sqrt(np.sum(rest**2) / max(rest.size, 1))),
    }
