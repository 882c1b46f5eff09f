"""A scene's folder with a COLMAP model: photographs, posed by it, and where they lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap import read_model
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import Posed, SceneSource, stays_below
from hardsplat.model.camera import Camera


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
