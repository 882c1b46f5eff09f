"""The first mesh by default: a sphere as large as the silhouettes, where their rays meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.mesh.checks import unwrapped
from hardsplat.mesh.model import Mesh
from hardsplat.model.camera import Camera


def icosphere(levels: int, centre, radius: float, resolution: int) -> Mesh:
    """An icosahedron, unwrapped for a texture of resolution x resolution texels, then subdivided
    `levels` times and pushed out to a sphere."""
    import trimesh

    solid = trimesh.creation.icosahedron()
    vertices, faces = np.asarray(solid.vertices, np.float32), np.asarray(solid.faces, np.int32)
    mesh = unwrapped(vertices, faces, resolution)
    for _ in range(levels):
        mesh, _ = mesh.subdivided(smooth=False)
        lengths = np.linalg.norm(mesh.vertices, axis=1, keepdims=True)
        mesh = replace(mesh, vertices=mesh.vertices / lengths)
    return replace(mesh, vertices=(mesh.vertices * radius + np.asarray(centre)).astype(np.float32))


def bounding_sphere(cameras: list[Camera], coverages: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """Centre (3,) and radius, world units, of the sphere whose outlines have about the silhouettes'
    places and areas. coverages: (H, W) bool."""
    normal, right, radii = np.zeros((3, 3)), np.zeros(3), []
    for camera, covered in zip(cameras, coverages):
        y, x = np.nonzero(covered)
        if not len(y):
            continue
        middle = [x.mean() + 0.5, y.mean() + 0.5, 1.0]
        ray = camera.w2c[:3, :3].T @ np.linalg.solve(camera.K, middle)
        ray /= np.linalg.norm(ray)
        across = np.eye(3) - np.outer(ray, ray)
        normal, right = normal + across, right + across @ camera.position
        radii.append((camera, np.sqrt(len(y) / np.pi)))
    if len(radii) < 2 or np.linalg.cond(normal) > 1e6:
        raise UserError(
            "silhouettes in fewer than two directions say nothing about where the object "
            "is; give a mesh with --init"
        )
    centre = np.linalg.solve(normal, right)
    distances = np.array([(camera.w2c[:3] @ np.append(centre, 1))[2] for camera, _ in radii])
    if (distances <= 0).any():
        raise UserError(
            "the silhouettes meet behind a camera; check the masks, or give a mesh with --init"
        )
    focal = np.array([np.sqrt(camera.K[0, 0] * camera.K[1, 1]) for camera, _ in radii])
    return centre, float(np.median([r for _, r in radii] * distances / focal))
