"""What splats of a result are to the images of its training views: how much each contributes, in
which directions, and how opaque it is drawn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.progress import Bar
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import buffer_in
from hardsplat.io.formats.frames import basis
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, open_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.raster.renderer import Renderer
from hardsplat.results.model import find_model
from hardsplat.settings.train import TrainConfig

MOST_VIEWS = 100  # evenly spaced; more change the order of few splats
log = logging.getLogger(__name__)


def contributions(
    gaussians: Gaussians,
    cameras: Sequence[Camera],
    near: float = 0.01,
    device: str | Device | None = None,
    antialiased: bool = False,
    quiet: bool = True,
) -> np.ndarray:
    """(N,) float64: sum over the pixels of all cameras of alpha times the transmittance in front.
    Raises UserError where no device can draw them."""
    return directions_seen(gaussians, 0, cameras, near, device, antialiased, quiet)[:, 0] / SH_C0


def directions_seen(
    gaussians: Gaussians,
    sh_degree: int,
    cameras: Sequence[Camera],
    near: float = 0.01,
    device: str | Device | None = None,
    antialiased: bool = False,
    quiet: bool = True,
) -> np.ndarray:
    """(N, (sh_degree + 1)^2) float64: sum over the pixels of all cameras of alpha times the
    transmittance in front times the SH basis in the direction of view.

    Raises UserError where no device can draw the splats.
    """
    total = np.zeros((len(gaussians), (sh_degree + 1) ** 2))
    drawn = _by_camera(gaussians, cameras, near, device, antialiased, quiet)
    for camera, (weight, _) in zip(cameras, drawn):
        shown = np.flatnonzero(weight)
        rays = gaussians.means[shown] - camera.position
        total[shown] += weight[shown, None] * _basis(rays, sh_degree)
    return total


def _basis(rays: np.ndarray, sh_degree: int) -> np.ndarray:
    """(N, (sh_degree + 1)^2) spherical harmonics in the directions of rays (N, 3)."""
    rays = rays / np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-30)
    bands = [
        np.sqrt((2 * degree + 1) / (4 * np.pi)) * basis(rays, degree)
        for degree in range(1, sh_degree + 1)
    ]
    return np.concatenate([np.full((len(rays), 1), SH_C0), *bands], axis=1)


def classic_opacities(
    gaussians: Gaussians,
    cameras: Sequence[Camera],
    near: float = 0.01,
    device: str | Device | None = None,
    quiet: bool = True,
) -> np.ndarray:
    """(N,) float32: the opacities with which viewers without the filter draw antialiased splats
    most alike: the means of those that these cameras draw, by contribution.

    Splats that none of them shows keep theirs. Raises UserError where no device can draw them.
    """
    total, drawn = np.zeros(len(gaussians)), np.zeros(len(gaussians))
    for weight, opacity in _by_camera(gaussians, cameras, near, device, True, quiet):
        total += weight
        drawn += weight * opacity
    mean = drawn / np.where(total > 0, total, 1)
    return np.where(total > 0, mean, gaussians.opacities).astype(np.float32)


def _by_camera(
    gaussians: Gaussians,
    cameras: Sequence[Camera],
    near: float,
    device: str | Device | None,
    antialiased: bool,
    quiet: bool,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each camera the sum over its pixels of alpha times the transmittance in front, and the
    opacity that every splat is drawn with; (N,) float32, 0 where it is not.

    The first is the gradient of the sum of all pixels by the splat's colour.
    """
    grey = replace(gaussians, sh=np.zeros((len(gaussians), 1, 3), np.float32), check=False)
    with Renderer(device, "tiled", antialiased=antialiased) as renderer:
        for camera in Bar(cameras, desc="weighing", unit="view", leave=False, disable=quiet):
            renderer.forward(grey, camera, near=near)
            d_image = np.zeros((camera.height, camera.width, 3), np.float32)
            d_image[..., 0] = 1
            weight = renderer.backward(d_image)["sh"][:, 0, 0] / np.float32(SH_C0)
            colors = buffer_in(renderer.resources, "colors2d")
            yield weight, colors.download(np.float32, 4 * len(gaussians)).reshape(-1, 4)[:, 3]


def weights_of(
    result: Path, device: str | None = None, quiet: bool = True
) -> Callable[[int, Gaussians], np.ndarray] | None:
    """Contributions of the splats of a result folder, as `hardsplat.convert` takes weights; None,
    with a note, where its scene or a device is missing."""
    try:
        weights = directions_of(result, 0, device, quiet)[:, 0]
    except UserError as error:
        note = (
            "splats are chosen by opacity and size, not by what they contribute to training views"
        )
        log.warning("%s: %s", note, error)
        return None
    return lambda first, piece: weights[first : first + len(piece)]


def directions_of(
    result: Path, sh_degree: int, device: str | None = None, quiet: bool = True
) -> np.ndarray:
    """`directions_seen` of the splats of a result folder by its training views. Raises UserError
    where its scene or a device is missing."""
    gaussians, cameras, config = _training(result, device)
    return directions_seen(
        gaussians,
        sh_degree,
        cameras,
        config.scene.near_plane,
        config.run.device,
        config.raster.antialiased,
        quiet,
    )


def classic_opacities_of(result: Path, device: str | None = None, quiet: bool = True) -> np.ndarray:
    """`classic_opacities` of the splats of a result folder by its training views. Raises UserError
    where its scene or a device is missing."""
    gaussians, cameras, config = _training(result, device)
    return classic_opacities(gaussians, cameras, config.scene.near_plane, config.run.device, quiet)


def _training(result: Path, device: str | None) -> tuple[Gaussians, list[Camera], TrainConfig]:
    """Splats of a result folder, MOST_VIEWS of the cameras that they were trained on, and how.
    Raises UserError where anything is missing."""
    file, config = find_model(result, device=device)
    if config.scene.data_dir is None:
        raise UserError(f"{result}: does not say which scene it was trained on")
    scene = load_scene(config.scene.data_dir, config.scene.data_factor, config.scene.test_every)
    gaussians = load_splats(file)
    if len(gaussians) < open_splats(file).count:
        raise UserError(f"{file}: some of its splats cannot be drawn")
    n = len(scene.train)
    chosen = np.unique(np.linspace(0, n - 1, min(n, MOST_VIEWS)).round().astype(int))
    return gaussians, [scene.views[scene.train[i]].camera for i in chosen], config
