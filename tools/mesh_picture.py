"""Draws a textured mesh from cameras of a scene, next to their photographs: points of its surface
in their colours, nearest last.

    python -m tools.mesh_picture scenes/courtyard out/court.glb docs/images/mesh.jpg --views 12 3
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import trimesh
from PIL import Image

from hardsplat.io.media.images import read_rgb8
from hardsplat.io.scenes.scene import load_scene
from hardsplat.mesh.colors import bilinear
from hardsplat.model.camera import Camera

SAMPLES = 6_000_000


def surface(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (N, 3) of a .glb with a texture, their normals and their colours (N, 3) in 0..255."""
    mesh = trimesh.load(path, force="mesh", process=False)
    texture = np.asarray(mesh.visual.material.baseColorTexture.convert("RGB"))
    points, face = trimesh.sample.sample_surface(mesh, SAMPLES, seed=0)
    shares = trimesh.triangles.points_to_barycentric(mesh.triangles[face], points)
    u, v = np.einsum("nk,nkc->cn", shares, mesh.visual.uv[mesh.faces[face]])
    height, width = texture.shape[:2]
    return points, mesh.face_normals[face], bilinear(texture, u * width, (1 - v) * height)


def drawn(camera: Camera, points, normals, colors) -> np.ndarray:
    """(H, W, 3) uint8, black where there is nothing."""
    which, (x, y), z = camera.pixels(points)
    front = np.einsum("ij,ij->i", camera.position - points[which], normals[which]) > 0
    order = np.flatnonzero(front)[np.argsort(-z[front])]
    image = np.zeros((camera.height, camera.width, 3), np.uint8)
    image[y[order], x[order]] = colors[which[order]]
    return image


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene", type=Path)
    parser.add_argument("mesh", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--views", type=int, nargs="+", default=[0])
    parser.add_argument("--scale", type=int, default=2, help="pixels of the picture for one")
    flags = parser.parse_args()
    scene, found, rows = load_scene(flags.scene), surface(flags.mesh), []
    for i in flags.views:
        view = scene.views[i]
        pair = drawn(view.camera, *found), read_rgb8(flags.scene / "images" / view.name)
        rows.append(np.concatenate(pair, axis=1))
    picture = Image.fromarray(np.concatenate(rows))
    size = picture.width * flags.scale, picture.height * flags.scale
    picture.resize(size, Image.Resampling.NEAREST).save(flags.out, quality=88)


if __name__ == "__main__":
    main()
