"""Meshes as files: OBJ and PLY in, through trimesh; OBJ with its texture, and PLY with colours, out."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from app.errors import UserError
from app.files import replacing
from app.io.images import save_png
from app.mesh.checks import checked
from app.mesh.model import Mesh

SUFFIXES = (".obj", ".ply")


def load_mesh(path: str | Path, resolution: int = 1024) -> tuple[Mesh, list[str]]:
    """As `checked` gives it. Raises UserError naming the file where it is missing, damaged or no surface that can be fitted."""
    import trimesh

    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: a mesh is an .obj or .ply file")
    if not path.is_file():
        raise UserError(f"{path}: mesh not found")
    logging.getLogger("trimesh").setLevel(logging.CRITICAL)  # what it cannot read is said here, in a line
    try:
        found = trimesh.load(path, process=False, force="mesh", skip_materials=path.suffix.lower() == ".ply")
        vertices, faces = np.asarray(found.vertices), np.asarray(found.faces)
    except Exception as error:  # its parsers raise almost anything
        raise UserError(f"{path}: not a readable mesh: {(str(error) or type(error).__name__).splitlines()[0][:120]}") from error
    uvs = getattr(found.visual, "uv", None)
    if uvs is None or len(uvs) != len(vertices):
        return checked(vertices, faces, where=str(path), resolution=resolution)
    uvs = np.asarray(uvs, np.float64)
    return checked(vertices, faces, np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1), faces, str(path), resolution)


def save_mesh(folder: Path, mesh: Mesh, texture: np.ndarray) -> None:
    """mesh.obj with mesh.mtl and texture.png, and mesh.ply with the colours of its vertices. texture: (height, width, 3) in 0..1. Raises UserError."""
    import trimesh

    save_png(folder / "texture.png", texture)
    lines = ["mtllib mesh.mtl", "usemtl surface"]
    lines += ["v {:.9g} {:.9g} {:.9g}".format(*v) for v in mesh.vertices.tolist()]
    lines += [f"vt {u:.9g} {1 - v:.9g}" for u, v in mesh.uvs.tolist()]
    lines += ["f " + " ".join(f"{v}/{t}" for v, t in zip(*face)) for face in zip((mesh.faces + 1).tolist(), (mesh.uv_faces + 1).tolist())]
    colors = np.ones((len(mesh.vertices), 4))
    at = np.clip((mesh.uvs * texture.shape[1::-1]).astype(int), 0, np.array(texture.shape[1::-1]) - 1)
    colors[mesh.faces.ravel(), :3] = texture[at[:, 1], at[:, 0]][mesh.uv_faces.ravel()]
    surface = trimesh.Trimesh(mesh.vertices, mesh.faces, vertex_colors=np.rint(255 * np.clip(colors, 0, 1)).astype(np.uint8), process=False)
    parts = {
        "mesh.obj": ("\n".join(lines) + "\n").encode(),
        "mesh.mtl": b"newmtl surface\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd texture.png\n",
        "mesh.ply": surface.export(file_type="ply"),
    }
    for name, data in parts.items():
        try:
            with replacing(folder / name) as partial:
                partial.write_bytes(data)
        except OSError as error:
            raise UserError(f"cannot write {folder / name}: {error.strerror}") from None
