"""Meshes as files: OBJ and PLY, in through trimesh."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from plyfile import PlyData, PlyElement

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.fitmesh.first import checked, in_one_place
from hardsplat.fitmesh.model import Mesh
from hardsplat.io.media.images import save_png, to_uint8

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
    """mesh.obj with mesh.mtl, and mesh.ply whose vertices have colours too, both with texture.png.
    texture: (height, width, 3) in 0..1. Raises UserError."""
    save_png(folder / "texture.png", texture)
    lines = ["mtllib mesh.mtl", "usemtl surface"]
    lines += ["v {:.9g} {:.9g} {:.9g}".format(*v) for v in mesh.vertices.tolist()]
    lines += [f"vt {u:.9g} {1 - v:.9g}" for u, v in mesh.uvs.tolist()]
    lines += [
        "f " + " ".join(f"{v}/{t}" for v, t in zip(*face))
        for face in zip((mesh.faces + 1).tolist(), (mesh.uv_faces + 1).tolist())
    ]
    material = "newmtl surface\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd texture.png\n"
    writers = {
        "mesh.obj": lambda path: path.write_text("\n".join(lines) + "\n"),
        "mesh.mtl": lambda path: path.write_text(material),
        "mesh.ply": lambda path: _ply(mesh, texture).write(path),
    }
    for name, write in writers.items():
        with written(folder / name), replacing(folder / name) as partial:
            write(partial)


def _ply(mesh: Mesh, texture: np.ndarray) -> PlyData:
    """A vertex for every pair of place in space and place in the texture, as MeshLab has it."""
    corners = np.stack([mesh.faces, mesh.uv_faces], axis=2).reshape(-1, 2)
    pairs, corners = np.unique(corners, axis=0, return_inverse=True)
    uvs, size = mesh.uvs[pairs[:, 1]], np.array(texture.shape[1::-1])
    at = np.clip((uvs * size).astype(int), 0, size - 1)
    columns = {
        **dict(zip("xyz", mesh.vertices[pairs[:, 0]].T)),
        **dict(zip("st", (uvs[:, 0], 1 - uvs[:, 1]))),
        **dict(zip(("red", "green", "blue"), to_uint8(texture[at[:, 1], at[:, 0]]).T)),
    }
    vertices = np.empty(len(pairs), [(name, values.dtype.str) for name, values in columns.items()])
    for name, values in columns.items():
        vertices[name] = values
    faces = np.empty(len(mesh.faces), [("vertex_indices", "<i4", (3,))])
    faces["vertex_indices"] = corners.reshape(-1, 3)
    elements = [PlyElement.describe(vertices, "vertex"), PlyElement.describe(faces, "face")]
    return PlyData(elements, byte_order="<", comments=["TextureFile texture.png"])
