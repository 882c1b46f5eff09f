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
from hardsplat.base.files import check_listed, ensure_folder, written
from hardsplat.io.scenes import colmap_binary, colmap_text
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import Posed, SceneSource, stays_below
from hardsplat.io.scenes.values import LARGEST, LARGEST_SIDE
from hardsplat.model.camera import Camera

_FORMATS = {".bin": colmap_binary, ".txt": colmap_text}  # in order of preference
_PARTS = ("cameras", "images", "points3D")


def model_folder(root: Path) -> Path | None:
    """The folder of a scene's model, if it has one."""
    return next((f for f in (root / "sparse" / "0", root / "sparse") if f.is_dir()), None)


def _missing(folder: Path) -> tuple[str, list[str]]:
    """The suffix of a model's files, and those that are not there."""
    missing = {s: [p + s for p in _PARTS if not os.path.isfile(folder / (p + s))] for s in _FORMATS}
    suffix = min(missing, key=lambda s: len(missing[s]))
    return suffix, missing[suffix]


def read_model(
    folder: str | Path,
) -> tuple[dict[int, ColmapCamera], dict[int, ColmapImage], ColmapPoints]:
    """Cameras by id, images by id, points of the model in `folder`; .bin files are preferred over
    .txt.

    Raises UserError naming the file and the problem when a file is missing, damaged, empty, or
    contradicts another.
    """
    folder = Path(folder)
    suffix, missing = _missing(folder)
    if missing:
        check_listed(folder)
        raise UserError(f"{folder}: not a complete COLMAP model, {', '.join(missing)} not found")
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
        why = "COLMAP registered none, or the wrong model was exported"
        raise UserError(f"{paths[1]}: holds no images; {why}")
    points = files.read_points(paths[2])
    if not len(points.xyz):
        why = "splats are initialized from them, so triangulate first"
        raise UserError(f"{paths[2]}: holds no points; {why}")
    bad = ~(np.abs(points.xyz) <= LARGEST).all(axis=1)
    if bad.any():
        which = f"point {bad.argmax() + 1} of {len(bad)}"
        raise UserError(f"{paths[2]}: {which} has a NaN or infinite position ({bad.sum()} such)")
    return cameras, images, points


def read_tracks(folder: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """(indices into the points of `read_model`, ids of images) of every observation of a point,
    both empty for models without tracks. Raises UserError like read_model."""
    suffix, missing = _missing(folder := Path(folder))
    if missing:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return _FORMATS[suffix].read_tracks(folder / f"points3D{suffix}")


def read_seen(root: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(N, 3) points of a scene's model, and which of them each photograph shows, by its name; both
    empty where no model has tracks. Raises UserError like read_model."""
    if (folder := model_folder(root)) is None:
        return np.zeros((0, 3)), {}
    _, images, points = read_model(folder)
    which, ids = read_tracks(folder)
    order = np.argsort(ids, kind="stable")
    which, ids = which[order], ids[order]
    first, end = (np.searchsorted(ids, list(images), side=side) for side in ("left", "right"))
    shown = zip(images.values(), first, end)
    return points.xyz, {image.name: np.unique(which[a:b]) for image, a, b in shown}


def _check_camera(path, camera, cameras):
    where = f"{path}: camera {camera.id}"
    if camera.id in cameras:
        raise UserError(f"{where} appears twice")
    _, focals, count = CAMERA_MODELS[camera.model]
    if len(camera.params) != count:
        known = f"{camera.model} has {count} parameters"
        raise UserError(f"{where}: {known}, the file gives {len(camera.params)}")
    width, height = camera.width, camera.height
    if not (0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE):
        raise UserError(f"{where}: image size {width}x{height} is not in 1..{LARGEST_SIDE} pixels")
    if not (np.abs(camera.params) <= LARGEST).all():
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
        which = f"camera {image.camera_id}, which the cameras file does not have"
        raise UserError(f"{where}: refers to {which}")
    if not (np.abs(np.concatenate([image.qvec, image.tvec])) <= LARGEST).all():
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
    with written(folder := Path(folder)):
        ensure_folder(folder)
        files = _FORMATS[".bin" if binary else ".txt"]
        files.write(folder, cameras.values(), images.values(), points)


# -- the folder of a scene


def read_colmap(root: Path, model: Path, data_factor: int) -> SceneSource:
    """model: the folder of the model within the scene's. Photographs may be missing. Raises
    UserError for a damaged model."""
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
        wanted = f"neither folder images_{data_factor} nor" if data_factor > 1 else "no folder"
        raise UserError(f"{root}: {wanted} images found; the photographs belong there")
    return root / "images", 1


def _paths(folder: Path, names: Sequence[str]) -> list[Path]:
    for name in names:
        if not stays_below(name):
            what = f"the model's image name {name!r} leads out of this folder"
            raise UserError(f"{folder}: {what}; rename it in the model")
    check_listed(folder)
    return [folder / name for name in names]
