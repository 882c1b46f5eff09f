"""Poses that training refined, as a COLMAP model and as transforms.json, for hardsplat and for
other tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.files import write_json
from hardsplat.io.formats.frames import quaternion
from hardsplat.io.scenes.colmap import write_model
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.scenes.values import OPENGL_TO_OPENCV
from hardsplat.io.scenes.views import View, size_of
from hardsplat.model.camera import Camera

FOLDER = "poses"
# Numbers of COLMAP's models by the names of transforms.json; those of other models have none there.
_KEYS = {
    "SIMPLE_PINHOLE": ("fl", "cx", "cy"),
    "PINHOLE": ("fl_x", "fl_y", "cx", "cy"),
    "SIMPLE_RADIAL": ("fl", "cx", "cy", "k1"),
    "RADIAL": ("fl", "cx", "cy", "k1", "k2"),
    "OPENCV": ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2"),
    "OPENCV_FISHEYE": ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "k3", "k4"),
}


def save_poses(
    folder: Path, scene: Scene, cameras: Sequence[Camera], root: Path | None = None
) -> None:
    """folder/sparse/0, with the scene's own cameras and points, and folder/transforms.json, where
    that format knows the cameras.

    cameras: a camera for each view of the scene, of which poses and changes of intrinsics are
    taken. root: the scene's folder, to which paths in transforms.json are relative. Raises
    UserError where they cannot be written.
    """
    pairs = list(zip(scene.views, cameras, strict=True))
    lenses = [_lens(view, i, camera) for i, (view, camera) in enumerate(pairs, 1)]
    images = {
        i: ColmapImage(i, view.name, lens.id, quaternion(c.w2c[:3, :3]), c.w2c[:3, 3])
        for i, ((view, c), lens) in enumerate(zip(pairs, lenses), 1)
    }
    points = np.asarray(scene.points, np.float64).reshape(-1, 3)
    colors = np.asarray(scene.colors, np.uint8).reshape(-1, 3)
    known = ColmapPoints(points, colors)
    write_model(folder / "sparse" / "0", {lens.id: lens for lens in lenses}, images, known)
    if all(lens.model in _KEYS for lens in lenses):
        frames = [_frame(view, lens, c.w2c, root) for (view, c), lens in zip(pairs, lenses)]
        write_json(folder / "transforms.json", {"frames": frames})


def _lens(view: View, number: int, camera: Camera) -> ColmapCamera:
    """The camera of the photograph as its scene has it, or one of its own for one in memory; with
    the changes that `camera` has over the view's."""
    c = view.camera
    d, numbers = c.distortion, [c.K[0, 0], c.K[1, 1], c.K[0, 2], c.K[1, 2]]
    model = "PINHOLE" if not d else "OPENCV_FISHEYE" if d.fisheye else "FULL_OPENCV"
    params = np.array([*numbers, *(d.coefficients if d else ())])
    lens = view.original or ColmapCamera(number, model, *size_of(view), params)
    if np.array_equal(c.K, camera.K):
        return lens
    params, focals = lens.params.copy(), CAMERA_MODELS[lens.model][1]
    before, after = np.diag(c.K)[:2], np.diag(camera.K)[:2]
    params[focals : focals + 2] += params[[0, focals - 1]] * (camera.K[:2, 2] - c.K[:2, 2]) / before
    params[:focals] *= (after / before)[:focals]
    return replace(lens, params=params)


def _frame(view: View, lens: ColmapCamera, w2c: np.ndarray, root: Path | None) -> dict:
    values = dict(zip(_KEYS[lens.model], lens.params.tolist()))
    if (focal := values.pop("fl", None)) is not None:
        values |= {"fl_x": focal, "fl_y": focal}
    to_world = np.linalg.inv(w2c)
    to_world[:3, :3] = to_world[:3, :3] @ OPENGL_TO_OPENCV
    below = view.name if root is None or (root / view.name).is_file() else f"images/{view.name}"
    model = "OPENCV_FISHEYE" if lens.model == "OPENCV_FISHEYE" else "OPENCV"
    about = dict(file_path=below, w=lens.width, h=lens.height, camera_model=model)
    return about | values | {"transform_matrix": to_world.tolist()}
