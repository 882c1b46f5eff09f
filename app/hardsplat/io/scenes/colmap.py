"""COLMAP sparse models: cameras, posed images and 3D points, binary (.bin) or text (.txt), and
scenes that have one.

The rigs and frames files of newer versions lie beside these three and are ignored, as each image
repeats its own pose.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes import colmap_binary, colmap_text
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import Posed, SceneSource, stays_below
from hardsplat.model.camera import Camera

__all__ = [
    "CAMERA_MODELS",
    "ColmapCamera",
    "ColmapImage",
    "ColmapPoints",
    "read_colmap",
    "read_model",
    "read_tracks",
    "write_model",
]

_FORMATS = {".bin": colmap_binary, ".txt": colmap_text}  # in order of preference
_PARTS = ("cameras", "images", "points3D")
_LARGEST_SIDE = 1_000_000  # pixels
_LARGEST = float(np.finfo(np.float32).max)  # what the GPU can hold


def read_model(
    folder: str | Path,
) -> tuple[dict[int, ColmapCamera], dict[int, ColmapImage], ColmapPoints]:
    """Cameras by id, images by id, points of the model in `folder`; .bin files are preferred over
    .txt.

    Raises UserError naming the file and the problem when a file is missing, damaged, empty, or
    contradicts another.
    """
    folder = Path(folder)
    missing = {s: [p + s for p in _PARTS if not os.path.isfile(folder / (p + s))] for s in _FORMATS}
    suffix = min(missing, key=lambda s: len(missing[s]))
    if missing[suffix]:
        raise UserError(
            f"{folder}: not a complete COLMAP model, {', '.join(missing[suffix])} not found"
        )
    paths = [folder / (p + suffix) for p in _PARTS]
    files = _FORMATS[suffix]

    cameras: dict[int, ColmapCamera] = {}
    for camera in files.read_cameras(paths[0]):
        _check_camera(paths[0], camera, cameras)
        cameras[camera.id] = camera
    images: dict[int, ColmapImage] = {}
    names: set[str] = set()
    for image in files.read_images(paths[1]):
        _check_image(paths[1], image, images, names, cameras)
        images[image.id] = image
        names.add(image.name)
    if not images:
        raise UserError(
            f"{paths[1]}: holds no images; COLMAP registered none, or the wrong model was exported"
        )
    points = files.read_points(paths[2])
    if not len(points.xyz):
        raise UserError(
            f"{paths[2]}: holds no points; splats are initialized from them, so triangulate first"
        )
    bad = ~(np.abs(points.xyz) <= _LARGEST).all(axis=1)
    if bad.any():
        raise UserError(
            f"{paths[2]}: point {bad.argmax() + 1} of {len(bad)} has a NaN or infinite "
            f"position ({bad.sum()} such)"
        )
    return cameras, images, points


def read_tracks(folder: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """(indices into the points of `read_model`, ids of images) of every observation of a point,
    both empty for models without tracks. Raises UserError like read_model."""
    folder = Path(folder)
    suffix = next(
        (
            suffix
            for suffix in _FORMATS
            if all(os.path.isfile(folder / (part + suffix)) for part in _PARTS)
        ),
        None,
    )
    if suffix is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return _FORMATS[suffix].read_tracks(folder / f"points3D{suffix}")


def _check_camera(path, camera, cameras):
    where = f"{path}: camera {camera.id}"
    if camera.id in cameras:
        raise UserError(f"{where} appears twice")
    _, focals, count = CAMERA_MODELS[camera.model]
    if len(camera.params) != count:
        raise UserError(
            f"{where}: {camera.model} has {count} parameters, the file gives {len(camera.params)}"
        )
    if not (0 < camera.width <= _LARGEST_SIDE and 0 < camera.height <= _LARGEST_SIDE):
        raise UserError(
            f"{where}: image size {camera.width}x{camera.height} is not in "
            f"1..{_LARGEST_SIDE} pixels"
        )
    if not (np.abs(camera.params) <= _LARGEST).all():
        raise UserError(f"{where}: a parameter is NaN or infinite")
    if not (camera.params[:focals] > 0).all():
        raise UserError(f"{where}: focal length {camera.params[:focals].min():g} is not positive")


def _check_image(path, image, images, names, cameras):
    where = f"{path}: image {image.id}"
    if not image.name or re.search(r"[\x00-\x1f\x7f]", image.name):
        raise UserError(f"{where}: name {image.name[:80]!r} is empty or has control characters")
    where += f" ({image.name[:80]})"
    if image.id in images:
        raise UserError(f"{where}: this id appears twice")
    if image.name in names:
        raise UserError(f"{where}: two images have this name")
    if image.camera_id not in cameras:
        raise UserError(
            f"{where}: refers to camera {image.camera_id}, which the cameras file does not have"
        )
    if not (np.abs(np.concatenate([image.qvec, image.tvec])) <= _LARGEST).all():
        raise UserError(f"{where}: its pose has a NaN or infinite number")
    if np.linalg.norm(image.qvec) < 1e-8:
        raise UserError(f"{where}: its rotation quaternion is zero")


def write_model(
    folder: str | Path,
    cameras: dict[int, ColmapCamera],
    images: dict[int, ColmapImage],
    points: ColmapPoints,
    binary: bool = True,
) -> None:
    """Writes cameras, images and points3D into `folder` (created), as .bin or .txt; without key
    points and tracks.

    Raises UserError when the folder cannot be written or the text format cannot hold an image's
    name.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _FORMATS[".bin" if binary else ".txt"].write(
            folder, cameras.values(), images.values(), points
        )
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error


# -- the folder of a scene


def read_colmap(root: Path, model: Path, data_factor: int) -> SceneSource:
    """model: the folder of the model within the scene's. Raises UserError for a damaged model, and
    for photographs that are missing."""
    cameras, images, points = read_model(model)
    folder, divisor = _image_folder(root, data_factor, next(iter(images.values())).name)
    paths = _paths(folder, [image.name for image in images.values()])
    photographs, masks = [], Masks(root)
    for image, path in zip(images.values(), paths):
        camera = cameras[image.camera_id]
        pinhole = Camera(image.w2c, intrinsics(camera), camera.width, camera.height)
        photographs.append(Posed(image.name, path, pinhole, camera, masks.of(image.name), divisor))
    return SceneSource(str(model), photographs, points.xyz, points.rgb)


def _image_folder(root: Path, data_factor: int, name: str) -> tuple[Path, int]:
    """The folder to read and how many times smaller than the model's cameras its pictures are.
    name: of one of them."""
    if data_factor > 1 and (root / f"images_{data_factor}").is_dir():
        return root / f"images_{data_factor}", data_factor
    if not (root / "images").is_dir():
        if stays_below(name) and (root / name).is_file():
            return root, 1
        wanted = f"images_{data_factor} nor images" if data_factor > 1 else "images"
        raise UserError(
            f"{root}: {'neither' if data_factor > 1 else 'no'} folder {wanted} found; the "
            "photographs belong there"
        )
    return root / "images", 1


def _paths(folder: Path, names: Sequence[str]) -> list[Path]:
    for name in names:
        if not stays_below(name):
            raise UserError(
                f"{folder}: the model's image name {name!r} leads out of this folder; "
                "rename it in the model"
            )
    paths = [folder / name for name in names]
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        there = {str(path).lower(): path for path in folder.rglob("*")}
        if all(str(path).lower() in there for path in missing):
            other = there[str(missing[0]).lower()].relative_to(folder)
            raise UserError(
                f"{missing[0]}: not found, but {other} is; {len(missing)} of {len(paths)} "
                "images differ in upper and lower case: rename them"
            )
        raise UserError(
            f"{missing[0]}: not found, {len(missing)} of the model's {len(paths)} images "
            "are missing"
        )
    return paths
