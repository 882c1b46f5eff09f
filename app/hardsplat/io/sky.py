"""Skies in files: background.npz of a result, and splats on a far sphere for all other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.base import reading
from hardsplat.io.formats.npz import arrays_of
from hardsplat.io.splats import load_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.sky import Sky

NAME = "background.npz"
FAR = 100.0  # radius of the sphere over that of the scene
_BEYOND = 1.2  # the radius at least, over the distance of nearly all splats
_MOST_SIDE = 4096


def with_sphere(
    planes: Mapping[str, np.ndarray], sky: Sky, cameras: Sequence[Camera], extent: float
) -> tuple[dict[str, np.ndarray], int]:
    """Trained values of splats, (planes, N, width) by name, followed by those of the sky on a
    sphere around the cameras, and how many these are. extent: of the scene, world units."""
    degree = int(np.sqrt(len(planes["shN"]) + 1)) - 1
    centre = np.mean([camera.position for camera in cameras], axis=0)
    away = np.linalg.norm(planes["means"][0] - centre, axis=1)
    near = float(np.quantile(away[np.isfinite(away)], 0.999)) if np.isfinite(away).any() else 0.0
    splats = sky.splats(centre, max(FAR * extent, _BEYOND * near), degree)
    more = splats.planes(degree)
    joined = {n: np.concatenate([values, more[n]], axis=1) for n, values in planes.items()}
    return joined, len(splats)


def save_sky(folder: Path, sky: Sky, splats: int, durable: bool = True) -> None:
    """folder/background.npz: `sky`, the texels, and `splats`, how many splats at the end of
    splats.ply show it. Raises UserError where it cannot be written."""
    path = folder / NAME
    with written(path), replacing(path, durable) as partial, open(partial, "wb") as file:
        np.savez(file, sky=sky.texels, splats=np.array(splats))


def load_sky(path: Path) -> tuple[Sky, int]:
    """From a file of save_sky. Raises UserError for anything else."""
    with reading(path, "not a readable sky"), arrays_of(path) as data:
        texels, splats = np.asarray(data["sky"]), int(data["splats"])
        return _checked(path, texels), splats


def _checked(path: Path, texels: np.ndarray) -> Sky:
    side = round(texels.shape[0] ** 0.5) if texels.ndim == 2 else 0
    if texels.shape != (side * side, 4) or not 0 < side <= _MOST_SIDE:
        raise UserError(f"{path}: a sky of shape {texels.shape}, expected (side^2, 4)")
    if texels.dtype != np.float32 or not np.isfinite(texels).all():
        raise UserError(f"{path}: a sky that is not of finite float32 numbers; damaged")
    return Sky(texels)


def load_drawn(file: Path) -> tuple[Gaussians, Sky | None]:
    """Splats of a file as hardsplat draws them, and the sky behind them: that of the result
    in whose folder a .ply lies, instead of the splats that show it, or of a checkpoint. Raises
    UserError like load_splats."""
    gaussians = load_splats(file)
    if file.suffix == ".npz" and checkpoints.holds(file):
        texels = checkpoints.load(file).buffers.get("sky")
        found = texels is not None and texels.shape[1]
        return gaussians, _checked(file, texels[0]) if found else None  # type: ignore[index]
    path = file.with_name(NAME)
    if file.suffix != ".ply" or not path.is_file():
        return gaussians, None
    sky, splats = load_sky(path)
    kept = len(gaussians) - splats
    if kept < 1 or not _is_sphere(gaussians.means[kept:]):  # the file is another by now
        return gaussians, None
    return gaussians[:kept], sky


def _is_sphere(means: np.ndarray) -> bool:
    """Whether splats lie on one sphere: all as far from a centre that fits them best."""
    if len(means) < 4:
        return not len(means)
    points = means.astype(np.float64)
    rows = np.concatenate([2 * points, np.ones((len(points), 1))], axis=1)
    solved = np.linalg.lstsq(rows, (points**2).sum(1), rcond=None)[0]
    away = np.linalg.norm(points - solved[:3], axis=1)
    return bool(np.ptp(away) < 1e-3 * away.mean())
