"""Models in files: splats, and the sky behind them as background.npz of a result and, for all other
programs, as splats on a far sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.base import reading
from hardsplat.io.formats.npz import arrays_of
from hardsplat.io.splats import load_splats, save_planes
from hardsplat.model.camera import Camera, quaternions
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.model.sky import Sky, directions_of

NAME = "background.npz"
FAR = 100.0  # radius of the sphere over that of the scene
_BEYOND = 1.2  # the radius at least, over the distance of nearly all splats
_MOST_SIDE = 4096
LEAST_SEEN = 0.02  # of a texel, for which it becomes splats
MARGIN = np.radians(6.0)  # beyond which there are none
_FINER = 2  # splats a texel and axis
_REACH = 0.65  # standard deviation of a splat over the distance to the next
_OPACITY = 0.99


def all_splats(
    planes: Mapping[str, np.ndarray], cameras: Sequence[Camera], extent: float
) -> Mapping[str, np.ndarray]:
    """Trained values of splats, (planes, N, width) by name, followed by those of the sky on a
    sphere around the cameras. extent: of the scene, world units."""
    own = {name: values for name, values in planes.items() if name != "sky"}
    if (sky := Sky.of_planes(planes)) is None:
        return own
    degree = int(np.sqrt(len(planes["shN"]) + 1)) - 1
    centre = np.mean([camera.position for camera in cameras], axis=0)
    away = np.linalg.norm(planes["means"][0] - centre, axis=1)
    near = float(np.quantile(away[np.isfinite(away)], 0.999)) if np.isfinite(away).any() else 0.0
    more = sphere(sky, centre, max(FAR * extent, _BEYOND * near), degree).planes(degree)
    return {name: np.concatenate([values, more[name]], axis=1) for name, values in own.items()}


def save_model(
    folder: Path,
    names: Sequence[str],
    planes: Mapping[str, np.ndarray],
    cameras: Sequence[Camera],
    extent: float,
    antialiased: bool,
    durable: bool,
) -> None:
    """The folder's .ply files of these names, of all_splats, and background.npz where there is a
    sky. durable: see replacing. Raises UserError where one cannot be written."""
    everything = all_splats(planes, cameras, extent)
    if sky := Sky.of_planes(planes):
        of_sky = everything["means"].shape[1] - planes["means"].shape[1]
        save_sky(folder, sky, of_sky, durable)
    for name in names:
        save_planes(folder / name, everything, antialiased, durable)


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


def load_model(file: Path, sky: bool = True) -> Gaussians:
    """Splats of a file as hardsplat draws them: before the sky of a checkpoint, or of the result in
    whose folder a .ply lies, instead of the splats that show it. sky: else without either. Raises
    UserError like load_splats."""
    gaussians = load_splats(file)
    if file.suffix == ".npz" and checkpoints.holds(file):
        found = Sky.of_planes(checkpoints.load(file).buffers)
        found = found and _checked(file, found.texels)
        return replace(gaussians, sky=found if sky else None, check=False)
    path = file.with_name(NAME)
    if file.suffix != ".ply" or not path.is_file():
        return gaussians
    found, splats = load_sky(path)
    kept = len(gaussians) - splats
    if kept < 1 or not _is_sphere(gaussians.means[kept:]):  # the file is another by now
        return gaussians
    return replace(gaussians[:kept], sky=found if sky else None, check=False)


def _is_sphere(means: np.ndarray) -> bool:
    """Whether splats lie on one sphere: all as far from a centre that fits them best."""
    if len(means) < 4:
        return not len(means)
    points = means.astype(np.float64)
    rows = np.concatenate([2 * points, np.ones((len(points), 1))], axis=1)
    solved = np.linalg.lstsq(rows, (points**2).sum(1), rcond=None)[0]
    away = np.linalg.norm(points - solved[:3], axis=1)
    return bool(np.ptp(away) < 1e-3 * away.mean())


def sphere(sky: Sky, centre: np.ndarray, radius: float, sh_degree: int = 0) -> Gaussians:
    """The sky as splats on a sphere, for programs that draw nothing else: flat ones that face
    the centre, where the training saw the sky, and MARGIN around that."""
    n = _FINER * sky.side
    v, u = (np.mgrid[0:n, 0:n].reshape(2, -1) + 0.5) / n
    towards = directions_of(np.stack([u, v], axis=1))
    found = sky.lookup(towards)
    chosen = _near_seen(sky, towards)
    towards, found, at = towards[chosen], found[chosen], np.stack([u, v], axis=1)[chosen]
    # along two edges of its cell, from one side of it to the other
    edges = []
    for axis in (0, 1):
        step = np.zeros(2)
        step[axis] = 0.5 / n
        edges.append(directions_of(at + step) - directions_of(at - step))
    quats, lengths = _frames(towards, *edges)
    scales = np.concatenate([_REACH * lengths, np.full((len(at), 1), 1e-4)], axis=1) * radius
    sh = np.zeros((len(at), (sh_degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = (np.maximum(found[:, :3], 0) - 0.5) / SH_C0
    means = np.asarray(centre) + radius * towards
    return Gaussians(means, quats, scales, np.full(len(at), _OPACITY), sh)


def _near_seen(sky: Sky, directions: np.ndarray) -> np.ndarray:
    """(N,) bool: whether the training saw the sky within MARGIN of directions (N, 3)."""
    from scipy.spatial import cKDTree

    places = (np.mgrid[0 : sky.side, 0 : sky.side].reshape(2, -1)[::-1].T + 0.5) / sky.side
    seen = directions_of(places[sky.texels[:, 3] >= LEAST_SEEN])
    if not len(seen):
        return np.zeros(len(directions), bool)
    away, _ = cKDTree(seen).query(directions, distance_upper_bound=MARGIN)
    return np.isfinite(away)


def _frames(normals: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quaternions (N, 4) and half axes (N, 2) of ellipses that cover cells with edges a and b, all
    (N, 3), across their normals: those of the covariance a a^T + b b^T."""
    first = a / np.linalg.norm(a, axis=1, keepdims=True)
    second = np.cross(normals, first)
    in_plane = np.stack([[(e * axis).sum(1) for axis in (first, second)] for e in (a, b)])
    covariance = np.einsum("ein,ejn->nij", in_plane, in_plane)
    values, vectors = np.linalg.eigh(covariance)
    axes = [vectors[:, 0, k, None] * first + vectors[:, 1, k, None] * second for k in (0, 1)]
    axes.append(np.cross(*axes))
    return quaternions(np.stack(axes, axis=2)), np.sqrt(np.maximum(values, 1e-12))
