"""COLMAP sparse models: cameras, posed images and 3D points, binary (.bin) or text (.txt), and
scenes that have one, see docs/guide/training.md.

The rigs and frames files of newer versions lie beside these three and are ignored, as each image
repeats its own pose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_listed, ensure_folder, written
from hardsplat.io.formats.ply import load_points
from hardsplat.io.scenes import colmap_binary, colmap_text
from hardsplat.io.scenes.colmap_model import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints
from hardsplat.io.scenes.found import PhotographFiles
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import (
    WORK,
    Posed,
    SceneSource,
    has_control,
    slashed,
    stays_below,
    usable,
)
from hardsplat.io.scenes.values import LARGEST, LARGEST_SIDE
from hardsplat.model.camera import Camera

_FORMATS = {".bin": colmap_binary, ".txt": colmap_text}  # in order of preference
_PARTS = ("cameras", "images")
_DEEP = 5  # folders below a scene that are searched for a model


def model_folder(root: Path) -> Path | None:
    """The folder of a scene's model, if it has one; of several in SCENE/sparse, parts that COLMAP
    could not join, the one with most photographs."""
    counts = _models(root)
    if len(counts) > 1:
        return max(counts, key=lambda folder: counts[folder])
    return next((f for f in (*counts, root / "sparse" / "0", root / "sparse") if f.is_dir()), None)


def _models(root: Path) -> dict[Path, int]:
    """Photographs of each model in SCENE/sparse/0, 1, ... and SCENE/sparse, in this order."""
    folder = root / "sparse"
    inside = folder.iterdir() if folder.is_dir() and os.access(folder, os.R_OK) else ()
    numbered = sorted((f for f in inside if f.name.isdecimal()), key=lambda f: int(f.name))
    return {f: _count(f) for f in (*numbered, folder) if not _missing(f)[1]}


def model_elsewhere(root: Path) -> str:
    """What to do with a model that lies in a scene where it is not looked for; "" without one."""
    patterns = [f"{'*/' * depth}cameras{suffix}" for depth in range(_DEEP) for suffix in _FORMATS]
    found = (path.relative_to(root) for pattern in patterns for path in root.glob(pattern))
    folders = {root / path.parent for path in found if WORK not in path.parts}
    if models := sorted(folder for folder in folders if not _missing(folder)[1]):
        return f"there is a model in {models[0]}: make that sparse/0, beside the photographs"
    return ""


def _count(folder: Path) -> int:
    """Photographs of a model; none of one that is damaged."""
    suffix = _missing(folder)[0]
    try:
        return _FORMATS[suffix].count_images(folder / f"images{suffix}")
    except UserError:
        return 0


def _missing(folder: Path) -> tuple[str, list[str]]:
    """The suffix of a model's files, and those that are not there; points may be missing."""
    missing = {s: [p + s for p in _PARTS if not os.path.isfile(folder / (p + s))] for s in _FORMATS}
    suffix = min(missing, key=lambda s: len(missing[s]))
    return suffix, missing[suffix]


def read_model(
    folder: Path,
) -> tuple[dict[int, ColmapCamera], dict[int, ColmapImage], ColmapPoints]:
    """Cameras by id, images by id, points of the model in `folder`; .bin files are preferred over
    .txt. Some points may not be finite; a model without points has none.

    Raises UserError naming the file and the problem when a file is missing, damaged, or contradicts
    another, and for a model without images.
    """
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
    return cameras, images, read_points(folder)


def _points_file(folder: Path) -> Path | None:
    """The file of a model's points, in the format of the others if there is one; else the .ply
    that Inria's code writes beside."""
    names = (f"points3D{suffix}" for suffix in (_missing(folder)[0], *_FORMATS, ".ply"))
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)


def read_points(folder: Path) -> ColmapPoints:
    """All points that the file of a model has, also where they are not finite; none without a
    file."""
    if (path := _points_file(folder)) is None:
        return ColmapPoints(np.zeros((0, 3)), np.zeros((0, 3), np.uint8))
    if path.suffix == ".ply":
        return ColmapPoints(*load_points(path))
    return _FORMATS[path.suffix].read_points(path)


def read_tracks(folder: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """(indices into the points of the file, ids of images) of every observation of a point, both
    empty for models without tracks. Raises UserError like read_model."""
    path = _points_file(Path(folder))
    if path is None or path.suffix not in _FORMATS:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return _FORMATS[path.suffix].read_tracks(path)


def read_seen(root: Path, origin: Sequence[float]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(N, 3) points of a scene's model, and which of them each photograph shows, by its name; both
    empty where no model has tracks. Points that no photograph shows may not be finite. origin: of
    the scene, in the files. Raises UserError like read_model."""
    if (folder := model_folder(root)) is None:
        return np.zeros((0, 3)), {}
    _, images, points = read_model(folder)
    which, ids = read_tracks(folder)
    good = usable(points.xyz)[which]
    which, ids = which[good], ids[good]
    order = np.argsort(ids, kind="stable")
    which, ids = which[order], ids[order]
    first, end = (np.searchsorted(ids, list(images), side=side) for side in ("left", "right"))
    shown = zip(images.values(), first, end)
    seen = {slashed(image.name): np.unique(which[a:b]) for image, a, b in shown}
    return points.xyz - origin, seen


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
    if not image.name or has_control(image.name):
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
) -> None:
    """Writes cameras, images and points3D into `folder` (created), as .bin without key points and
    tracks. Raises UserError when the folder cannot be written."""
    with written(folder := Path(folder)):
        ensure_folder(folder)
        colmap_binary.write(folder, cameras.values(), images.values(), points)


# -- the folder of a scene


def read(root: Path, data_factor: int) -> SceneSource:
    """The scene in `root`. Photographs may be missing. Raises UserError for a damaged model."""
    model = model_folder(root) or root / "sparse"
    cameras, images, points = read_model(model)
    folder, divisor = _image_folder(root, data_factor, next(iter(images.values())).name)
    names, files = [image.name for image in images.values()], PhotographFiles(folder)
    paths = _paths(files, names)
    photographs, masks = [], Masks(root)
    for image, path in zip(images.values(), paths):
        camera, name = cameras[image.camera_id], slashed(image.name)
        pinhole = Camera(image.w2c, intrinsics(camera), camera.width, camera.height)
        mask = masks.of(name) or masks.of(path.relative_to(folder).as_posix())
        photographs.append(Posed(name, path, pinhole, camera, mask, divisor))
    notes = *_chosen(root, model), *files.notes("the model")
    return SceneSource(str(model), photographs, points.xyz, points.rgb, notes=notes)


def _chosen(root: Path, model: Path) -> Iterator[str]:
    """A note where a scene has several models."""
    if len(counts := _models(root)) > 1:
        others = [f"{f.relative_to(root)} has {n}" for f, n in counts.items() if f != model]
        mine = f"cameras are from {model}, which has {counts[model]} photographs"
        yield f"{mine}; {', '.join(others)}"


def _image_folder(root: Path, data_factor: int, name: str) -> tuple[Path, int]:
    """The folder to read and how many times smaller than the model's cameras its pictures are.
    name: of one of them."""
    if data_factor > 1 and (root / f"images_{data_factor}").is_dir():
        return root / f"images_{data_factor}", data_factor
    images = root / "images"
    if not _has(images, name) and _has(root, name):
        return root, 1
    if not images.is_dir():
        wanted = f"neither folder images_{data_factor} nor" if data_factor > 1 else "no folder"
        smaller = [f.name[7:] for f in sorted(root.glob("images_*")) if f.name[7:].isdecimal()]
        there = f"there is images_{smaller[0]}: --data-factor {smaller[0]}" if smaller else ""
        raise UserError(f"{root}: {wanted} images found; {there or 'the photographs belong there'}")
    return images, 1


def _has(folder: Path, name: str) -> bool:
    below = PhotographFiles(folder).of([name])[0]
    return below is not None and (folder / below).is_file()


def _paths(files: PhotographFiles, names: Sequence[str]) -> list[Path]:
    for name in names:
        if not stays_below(name):
            what = f"the model's image name {name!r} leads out of this folder"
            raise UserError(f"{files.folder}: {what}; rename it in the model")
    check_listed(files.folder)
    return [files.folder / (file or name) for name, file in zip(names, files.of(names))]
