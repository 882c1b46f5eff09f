"""Meshes as files that other programs read, through trimesh."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.io.media.images import to_uint8


@dataclass(frozen=True)
class MeshFormat:
    """up: of its world, by convention. blender: what its menu calls it. colors: what it holds, of
    texture and vertices."""

    up: str
    blender: str
    colors: tuple[str, ...] = ()


MESHES = {
    ".glb": MeshFormat("y", "glTF 2.0", ("texture", "vertices")),
    ".obj": MeshFormat("y", "Wavefront", ("texture", "vertices")),
    ".ply": MeshFormat("z", "Stanford PLY", ("vertices",)),
    ".stl": MeshFormat("z", "STL"),
}


def format_of(path: Path) -> MeshFormat:
    """By the ending. Raises UserError for one that no mesh has."""
    if path.suffix.lower() not in MESHES:
        raise UserError(f"{path}: a mesh ends in {', '.join(MESHES)}")
    return MESHES[path.suffix.lower()]


def beside(path: Path) -> list[Path]:
    """What an .obj with a texture writes next to itself, by its name."""
    ends = (".mtl", ".png") if path.suffix.lower() == ".obj" else ()
    return [path.with_name(f"{_stem(path)}{end}") for end in ends]


def _stem(path: Path) -> str:
    return re.sub(r"\W+", "_", path.stem)


@dataclass(frozen=True, eq=False)
class Textured:
    """A mesh that is cut open along its charts. vertices: (U,) of the mesh. uvs: (U, 2) in 0..1,
    from the upper left. faces: (F, 3) of these."""

    vertices: np.ndarray
    uvs: np.ndarray
    faces: np.ndarray


@dataclass(frozen=True, eq=False)
class Colored:
    """A mesh as it is written. points: (V, 3) world units. faces: (F, 3), counter-clockwise from
    outside.

    colors: (V, 3) in 0..1 for display. cut and texture: charts, and (side, side, 3) in 0..1.
    """

    points: np.ndarray
    faces: np.ndarray
    colors: np.ndarray | None = None
    cut: Textured | None = None
    texture: np.ndarray | None = None


def write_mesh(path: Path, mesh: Colored) -> int:
    """Writes one file, for an .obj with its .mtl and .png of the same name too; their bytes in all.
    Raises UserError where that fails."""
    import trimesh

    kind, stem = path.suffix.lower().removeprefix("."), _stem(path)
    made = trimesh.Trimesh(mesh.points, mesh.faces, process=False)
    normals = made.vertex_normals
    if mesh.cut is not None and mesh.texture is not None:
        image = Image.fromarray(to_uint8(mesh.texture))
        uvs = np.stack([mesh.cut.uvs[:, 0], 1 - mesh.cut.uvs[:, 1]], axis=1)
        material = (
            trimesh.visual.material.PBRMaterial(
                name=stem, baseColorTexture=image, metallicFactor=0.0, roughnessFactor=1.0
            )
            if kind == "glb"
            else trimesh.visual.material.SimpleMaterial(image=image, name=stem)
        )
        made = trimesh.Trimesh(
            mesh.points[mesh.cut.vertices],
            mesh.cut.faces,
            vertex_normals=normals[mesh.cut.vertices],
            visual=trimesh.visual.TextureVisuals(uvs, material=material),
            process=False,
        )
    elif mesh.colors is not None:
        # glTF has linear colours at vertices
        colors = _linear(mesh.colors) if kind == "glb" else mesh.colors
        made.visual = trimesh.visual.ColorVisuals(made, vertex_colors=to_uint8(colors))
    files = _files(made, kind, stem)
    total = 0
    for name, data in files.items():
        target = path if name == f".{kind}" else path.parent / name
        with written(target), replacing(target) as partial:
            partial.write_bytes(data)
        total += len(data)
    return total


def _files(made, kind: str, stem: str) -> dict[str, bytes]:
    """By name, and the mesh itself by its ending, last."""
    if kind != "obj":
        normals = {"include_normals": True} if kind == "glb" else {}
        return {f".{kind}": made.export(file_type=kind, **normals)}
    from trimesh.exchange.obj import export_obj

    text, others = export_obj(
        made, include_normals=False, return_texture=True, mtl_name=f"{stem}.mtl"
    )
    return {**others, ".obj": text.encode()}


def _linear(colors: np.ndarray) -> np.ndarray:
    """sRGB for display -> linear light, both in 0..1."""
    return np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
