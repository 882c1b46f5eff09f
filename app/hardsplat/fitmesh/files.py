"""The sphere that a fit begins with, and the files of a mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.fitmesh.model import Mesh
from hardsplat.io.meshes import Colored, Textured, write_mesh

# pixels carry the number of their triangle as a float32, which holds whole numbers up to here
MOST_TRIANGLES = 1 << 24


def check_triangles(count: int, what: str, remedy: str) -> None:
    """Raises UserError for more triangles than pixels can name."""
    if count > MOST_TRIANGLES:
        limit = f"{MOST_TRIANGLES:,} can be told apart"
        raise UserError(f"{what}: has {count:,} triangles, {limit}; {remedy}")


def save_mesh(folder: Path, mesh: Mesh, texture: np.ndarray) -> None:
    """mesh.obj with mesh.mtl and mesh.png, and mesh.glb. texture: (height, width, 3) in 0..1.
    Raises UserError."""
    # a vertex for every pair of a place in space and one in the texture
    corners = np.stack([mesh.faces, mesh.uv_faces], axis=2).reshape(-1, 2)
    pairs, corners = np.unique(corners, axis=0, return_inverse=True)
    cut = Textured(pairs[:, 0], mesh.uvs[pairs[:, 1]], corners.reshape(-1, 3))
    colored = Colored(mesh.vertices, mesh.faces, cut=cut, texture=texture)
    for name in ("mesh.obj", "mesh.glb"):
        write_mesh(folder / name, colored)


def unwrapped(vertices: np.ndarray, faces: np.ndarray, resolution: int) -> Mesh:
    """The mesh with places in a texture of resolution x resolution texels, two triangles a
    rectangle.

    No texel is among the four around places of two triangles: the halves of a rectangle are two
    texels apart, and half a texel inside it. Raises UserError where a rectangle would be smaller
    than 4 texels.
    """
    cells = -(-len(faces) // 2)
    columns = int(np.ceil(np.sqrt(cells)))
    size = np.array([resolution // columns, resolution // -(-cells // columns)])
    if size.min() < 4:
        room = f"a texture of {resolution}x{resolution} texels"
        remedy = f"raise --texture-size to {4 * columns}"
        raise UserError(f"{len(faces):,} triangles do not fit in {room}: {remedy}")
    inset = 0.55  # of which 0.05 is for the rasterizer's rounding
    half = inset + np.array([[0, 0], [1, 0], [0, 1]]) * (size - 3 - 0.1)
    number = np.arange(len(faces))
    corner = np.stack([number // 2 % columns, number // 2 // columns], axis=1) * size
    halves = np.where((number % 2 == 0)[:, None, None], half, size - half)
    uvs = ((corner[:, None] + halves) / resolution).reshape(-1, 2).astype(np.float32)
    return Mesh(vertices, faces, uvs, np.arange(3 * len(faces), dtype=np.int32).reshape(-1, 3))


def icosphere(levels: int, centre, radius: float, resolution: int) -> Mesh:
    """The first mesh: an icosahedron, unwrapped for a texture of resolution x resolution
    texels, then subdivided `levels` times and pushed out to a sphere."""
    import trimesh

    solid = trimesh.creation.icosahedron()
    vertices, faces = np.asarray(solid.vertices, np.float32), np.asarray(solid.faces, np.int32)
    mesh = unwrapped(vertices, faces, resolution)
    for _ in range(levels):
        mesh, _ = mesh.subdivided(smooth=False)
        lengths = np.linalg.norm(mesh.vertices, axis=1, keepdims=True)
        mesh = replace(mesh, vertices=mesh.vertices / lengths)
    return replace(mesh, vertices=(mesh.vertices * radius + np.asarray(centre)).astype(np.float32))
