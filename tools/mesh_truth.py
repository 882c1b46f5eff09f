"""Measures meshes against generated scenes whose surfaces are known.

    python -m tools.mesh_truth courtyard RESULT MESH.ply
    python -m tools.mesh_truth pebble RESULT

Without a mesh, prints the error of each kind of depth over every fourth training view, in shares of
1 % of the size. With one, prints the Chamfer distance and the F-score at 1 % of the size of MESH,
and of the same fusion of exact depth from the same cameras. Each is a line of JSON. RESULT is what
the mesh was made of; its scene must be of tools.make_scene or tools.make_mesh_scene with their
seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trimesh
from scipy.spatial import cKDTree

from hardsplat.io.scenes.scene import load_scene
from hardsplat.mesh.build import FARTHEST, Fusion, opened, surface_of
from hardsplat.mesh.views import DEPTHS, DepthView, SplatViews, rays_of
from hardsplat.model.camera import Camera
from hardsplat.results.model import find_model
from tools import courtyard
from tools.make_mesh_scene import Pebble
from tools.raytrace import World

SHARE = 0.01  # of the size of the scene, for two points to agree
SAMPLES = 100_000
SIZES = {"courtyard": 2 * courtyard.HALF, "pebble": 2.0}  # world units


def courtyard_depth() -> Callable[[Camera], np.ndarray]:
    """Exact depth (H, W) of a camera in the courtyard, 0 for the sky."""
    world = World.__new__(World)  # its shapes alone, without light
    world.bodies = [b for b in courtyard.bodies(np.random.default_rng(0)) if not b.emits]

    def depth(camera: Camera) -> np.ndarray:
        rays, origin = rays_of(camera)
        d = rays.reshape(-1, 3).T.astype(np.float32)
        o = np.broadcast_to(origin[:, None], d.shape).astype(np.float32)
        found = world.trace(o, d)[0]
        return np.where(np.isfinite(found), found, 0).reshape(rays.shape[:2])

    return depth


def pebble_depth() -> Callable[[Camera], np.ndarray]:
    """Exact depth (H, W) of a camera around the pebble, 0 beside it."""
    pebble = Pebble(0)

    def depth(camera: Camera) -> np.ndarray:
        rays, origin = rays_of(camera)
        d = rays.reshape(-1, 3)
        lengths = np.linalg.norm(d, axis=1)
        o = np.broadcast_to(origin[:, None], (3, len(d)))
        return (pebble.distance(o, (d / lengths[:, None]).T) / lengths).reshape(rays.shape[:2])

    return depth


TRUTHS = {"courtyard": courtyard_depth, "pebble": pebble_depth}


def scores(mesh: trimesh.Trimesh, truth: np.ndarray, size: float) -> dict[str, float]:
    """Chamfer distance, as a share of the size, and the F-score at SHARE of it. truth: (N, 3)
    points of the surface that cameras see; of the mesh what is within their bounds counts, so that
    a sky does not."""
    points = trimesh.sample.sample_surface(mesh, SAMPLES, seed=0)[0]
    reach = SHARE * size
    inside = (points > truth.min(axis=0) - reach) & (points < truth.max(axis=0) + reach)
    points = points[inside.all(axis=1)]
    near, far = cKDTree(truth).query(points)[0], cKDTree(points).query(truth)[0]
    precision, recall = (near < reach).mean(), (far < reach).mean()
    return {
        "chamfer": round(float(near.mean() + far.mean()) / 2 / size, 5),
        "precision": round(float(precision), 4),
        "recall": round(float(recall), 4),
        "f_score": round(float(2 * precision * recall / max(precision + recall, 1e-12)), 4),
    }


def truth_of(views: list[DepthView], farthest: float) -> np.ndarray:
    """(N, 3) points that views see up to a depth."""
    points = []
    for camera, depth, _ in views:
        rays, origin = rays_of(camera)
        seen = (depth > 0) & (depth <= farthest)
        points.append(origin + depth[seen][:, None] * rays[seen])
    points = np.concatenate(points)
    rng = np.random.default_rng(0)
    return points[rng.choice(len(points), min(len(points), 2 * SAMPLES), replace=False)]


def compare(scene: str, result: Path, mesh: Path) -> list[dict[str, float]]:
    """Scores of a mesh, and of the fusion of exact depth."""
    c = find_model(result)[1].scene
    found = load_scene(c.data_dir, c.data_factor, c.test_every, c.mask_mode)
    depth_of = TRUTHS[scene]()
    views = []
    for i in found.train:
        camera = found.views[i].camera
        depth = depth_of(camera).astype(np.float32)
        views.append(DepthView(camera, depth, np.zeros((*depth.shape, 3), np.uint8)))
    farthest = FARTHEST * float(np.median(np.concatenate([v.depth[v.depth > 0] for v in views])))
    truth, size = truth_of(views, farthest), SIZES[scene]
    points, faces, voxel, _ = surface_of(views, Fusion(max_depth=farthest))
    exact = trimesh.Trimesh(points, faces, process=False)
    made = trimesh.load(mesh, process=False, force="mesh")
    rows = [{"mesh": str(mesh), **scores(made, truth, size)}]
    return [*rows, {"mesh": f"exact depth, voxels of {voxel:.3g}", **scores(exact, truth, size)}]


def depth_errors(scene: str, result: Path) -> list[dict[str, float]]:
    """Of each of DEPTHS of the meshes: the share of pixels that have a depth; its median error and
    median absolute error, over SHARE of the size; and the share of pixels where that is below 1."""
    file, config = find_model(result)
    cameras, painter = opened(config, file)
    depth_of, rows = TRUTHS[scene](), []
    try:
        for kind in DEPTHS:
            views = list(SplatViews(painter, cameras[::4], kind, True))
            exact = np.concatenate([depth_of(view.camera).ravel() for view in views])
            found = np.concatenate([view.depth.ravel() for view in views])
            counted = (exact > 0) & (exact < FARTHEST * np.median(exact[exact > 0]))
            there = counted & (found > 0)
            errors = (found - exact)[there] / (SHARE * SIZES[scene])
            numbers = {"covered": there.sum() / counted.sum(), "bias": np.median(errors)}
            numbers["error"] = np.median(np.abs(errors))
            numbers["within"] = (np.abs(errors) < 1).sum() / counted.sum()
            rows.append({"depth": kind} | {k: round(float(v), 3) for k, v in numbers.items()})
    finally:
        painter.destroy()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene", choices=tuple(TRUTHS))
    parser.add_argument("result", type=Path)
    parser.add_argument("mesh", type=Path, nargs="?")
    given = parser.parse_args()
    if given.mesh is None:
        rows = depth_errors(given.scene, given.result)
    else:
        rows = compare(given.scene, given.result, given.mesh)
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
