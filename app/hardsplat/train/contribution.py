"""How much each splat of a result contributes to the images of its training views."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hardsplat.camera import Camera
from hardsplat.errors import UserError
from hardsplat.gaussians import SH_C0, Gaussians
from hardsplat.gpu.context import Device
from hardsplat.io.scene import load_scene
from hardsplat.io.splats import load_splats, open_splats
from hardsplat.progress import Bar
from hardsplat.train.result import find_model

MOST_VIEWS = 100  # evenly spaced; more change the order of few splats
log = logging.getLogger(__name__)


def contributions(
    gaussians: Gaussians, cameras: Sequence[Camera], near: float = 0.01, device: str | Device | None = None, antialiased: bool = False, quiet: bool = True
) -> np.ndarray:
    """(N,) float64: sum over the pixels of all cameras of alpha times the transmittance in front. Raises UserError where no device can draw them."""
    return directions_seen(gaussians, 0, cameras, near, device, antialiased, quiet)[:, 0] / SH_C0


def directions_seen(
    gaussians: Gaussians, sh_degree: int, cameras: Sequence[Camera], near: float = 0.01, device: str | Device | None = None, antialiased: bool = False, quiet: bool = True
) -> np.ndarray:
    """(N, (sh_degree + 1)^2) float64: sum over the pixels of all cameras of alpha times the transmittance in front times the SH basis in the direction of view.

    It is the gradient of the sum of all pixels by the coefficients of one colour. Raises UserError where no device can draw the splats.
    """
    from hardsplat.api import Renderer

    coefficients = (sh_degree + 1) ** 2
    grey = Gaussians(gaussians.means, gaussians.quats, gaussians.scales, gaussians.opacities, np.zeros((len(gaussians), coefficients, 3), np.float32), check=False)
    total = np.zeros((len(gaussians), coefficients))
    with Renderer(device, "tiled", antialiased=antialiased) as renderer:
        for camera in Bar(cameras, desc="weighing", unit="view", leave=False, disable=quiet):
            renderer.forward(grey, camera, near=near)
            d_image = np.zeros((camera.height, camera.width, 3), np.float32)
            d_image[..., 0] = 1
            total += renderer.backward(d_image)["sh"][..., 0]
    return total


def weights_of(result: Path, device: str | None = None, quiet: bool = True) -> Callable[[int, Gaussians], np.ndarray] | None:
    """Contributions of the splats of a result folder, as `hardsplat.convert` takes weights; None, with a note, where its scene or a device is missing."""
    try:
        weights = directions_of(result, 0, device, quiet)[:, 0]
    except UserError as error:
        log.warning("splats are chosen by opacity and size, not by what they contribute to training views: %s", error)
        return None
    return lambda first, piece: weights[first : first + len(piece)]


def directions_of(result: Path, sh_degree: int, device: str | None = None, quiet: bool = True) -> np.ndarray:
    """`directions_seen` of the splats of a result folder by its training views. Raises UserError where its scene or a device is missing."""
    file, config = find_model(result, device=device)
    if config.data_dir is None:
        raise UserError(f"{result}: does not say which scene it was trained on")
    scene, gaussians = load_scene(config.data_dir, config.data_factor, config.test_every), load_splats(file)
    if len(gaussians) < open_splats(file).count:
        raise UserError(f"{file}: some of its splats cannot be drawn")
    chosen = np.unique(np.linspace(0, len(scene.train) - 1, min(len(scene.train), MOST_VIEWS)).round().astype(int))
    cameras = [scene.views[scene.train[i]].camera for i in chosen]
    return directions_seen(gaussians, sh_degree, cameras, config.near_plane, config.device, config.antialiased, quiet)
