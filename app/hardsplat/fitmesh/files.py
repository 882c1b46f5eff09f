"""Meshes as files: the first one, and what comes of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.fitmesh.first import checked, in_one_place
from hardsplat.fitmesh.model import Mesh
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
