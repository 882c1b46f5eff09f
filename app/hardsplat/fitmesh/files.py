"""Meshes as files, in and out: read ones are repaired or refused, and get texture coordinates where
they have none. The sphere to begin with by default."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.fitmesh.model import Mesh, sides_of
from hardsplat.io.meshes import Colored, Textured, write_mesh

SUFFIXES = (".obj", ".ply")
# pixels carry the number of their triangle as a float32, which holds whole numbers up to here
MOST_TRIANGLES = 1 << 24


def check_triangles(count: int, what: str, remedy: str) -> None:
    """Raises UserError for more triangles than pixels can name."""
    if count > MOST_TRIANGLES:
        limit = f"{MOST_TRIANGLES:,} can be told apart"
        raise UserError(f"{what}: has {count:,} triangles, {limit}; {remedy}")


def load_mesh(
    path: str | Path, resolution: int = 1024
) -> tuple[Mesh, np.ndarray | None, list[str]]:
    """The mesh, its texture as (resolution, resolution, 3) float32 in 0..1 where it has one, and
    notes, see `checked`.

    Raises UserError naming the file where it is missing, damaged or no surface that can be fitted.
    """
    import trimesh

    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: a mesh is an .obj or .ply file")
    if not path.is_file():
        raise UserError(f"{path}: mesh not found")
    # what it cannot read is reported here, in a line
    logging.getLogger("trimesh").setLevel(logging.CRITICAL)
    texture = None
    try:
        found: Any = trimesh.load(path, process=False, force="mesh")
        vertices, faces = np.asarray(found.vertices), np.asarray(found.faces)
        image: Any = getattr(getattr(found.visual, "material", None), "image", None)
        if image is not None and max(image.size) >= 4:  # the stand-in for a missing one is smaller
            image = image.convert("RGB").resize((resolution, resolution))
            texture = np.asarray(image, np.float32) / 255
    except Exception as error:  # its parsers raise almost anything
        why = (str(error) or type(error).__name__).splitlines()[0][:120]
        if isinstance(error, ImportError):  # of what would guess the encoding
            why = "not UTF-8 text"
        raise UserError(f"{path}: not a readable mesh: {why}") from error
    check_triangles(len(faces), str(path), "simplify it first")
    uvs = getattr(found.visual, "uv", None)
    if uvs is None or len(uvs) != len(vertices):
        mesh, notes = checked(vertices, faces, where=str(path), resolution=resolution)
        return mesh, None, notes
    uvs = np.asarray(uvs, np.float64)
    down = np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1)
    mesh, notes = checked(vertices, faces, down, faces, str(path), resolution)
    return mesh, texture if in_one_place(uvs) else None, notes


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


def checked(
    vertices, faces, uvs=None, uv_faces=None, where: str = "mesh", resolution: int = 1024
) -> tuple[Mesh, list[str]]:
    """The mesh, and notes on what was changed.

    Vertices in one place become one. Faces without an area and vertices without a face are left
    out. Texture coordinates that are missing or outside 0..1 (a repeated texture has no place of
    its own for every texel) are made again, for resolution x resolution texels. Raises UserError,
    starting with `where`, for a mesh without faces, with numbers that are not finite, indices of
    nothing, or edges with more than two faces.
    """
    vertices = np.asarray(vertices, np.float64).reshape(-1, 3)
    faces, n = np.asarray(faces, np.int64).reshape(-1, 3), len(vertices)
    bad = int((~np.isfinite(vertices)).any(axis=1).sum())
    with np.errstate(over="ignore"):
        vertices = vertices.astype(np.float32)
    fault = None
    if not len(faces):
        fault = "has no triangles"
    elif faces.min() < 0 or faces.max() >= n:
        fault = f"a triangle names vertex {faces.max() if faces.max() >= n else faces.min()} of {n}"
    elif bad:
        fault = f"{bad} of {n} vertices have a NaN or infinite coordinate"
    elif not np.isfinite(vertices).all():
        fault = "coordinates are beyond what 32-bit floats hold; scale the mesh down"
    elif uvs is not None:
        uvs = np.asarray(uvs, np.float64).reshape(-1, 2)
        uv_faces = np.asarray(uv_faces, np.int64).reshape(-1, 3)
        matching = len(uv_faces) == len(faces) and 0 <= uv_faces.min() <= uv_faces.max() < len(uvs)
        if not matching or not np.isfinite(uvs).all():
            fault = "its texture coordinates are damaged; remove them and others are made"
    if fault:
        raise UserError(f"{where}: {fault}")
    places, inverse = np.unique(vertices, axis=0, return_inverse=True)
    welded = inverse.reshape(-1)[faces]
    a, b, c = (places[welded[:, k]].astype(np.float64) for k in range(3))
    distinct = (welded != np.roll(welded, 1, axis=1)).all(axis=1)
    longest = np.max([((p - q) ** 2).sum(1) for p, q in ((a, b), (b, c), (c, a))], axis=0)
    keep = distinct & (np.linalg.norm(np.cross(b - a, c - a), axis=1) > 1e-7 * longest)
    if not keep.any():
        raise UserError(f"{where}: none of its {len(faces):,} triangles has an area")
    lost = (~keep).sum()
    notes = [f"{where}: {lost:,} triangles without an area are left out"] if lost else []
    edges, sides = sides_of(welded[keep])
    if crowded := int((np.bincount(sides.ravel()) > 2).sum()):
        shared = f"{crowded:,} of {len(edges):,} edges have more than two triangles"
        raise UserError(f"{where}: not a manifold: {shared}; repair it first")
    used, faces = np.unique(welded[keep], return_inverse=True)
    vertices, faces = places[used], faces.reshape(-1, 3).astype(np.int32)
    if uvs is None or not in_one_place(uvs):
        notes.append(f"{where}: texture coordinates are made again, it has none in 0..1")
        return unwrapped(vertices, faces, resolution), notes
    used, uv_faces = np.unique(uv_faces[keep], return_inverse=True)
    uvs = np.clip(uvs[used], 0, 1).astype(np.float32)
    return Mesh(vertices, faces, uvs, uv_faces.reshape(-1, 3).astype(np.int32)), notes


def in_one_place(uvs: np.ndarray) -> bool:
    """Whether places in a texture are in 0..1; those of a repeated one are not."""
    return bool(len(uvs) and (uvs >= -1e-4).all() and (uvs <= 1 + 1e-4).all())


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
    """The first mesh by default: an icosahedron, unwrapped for a texture of resolution x resolution
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
