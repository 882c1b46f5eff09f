"""What splats of a result are to the images of its training views: how much each contributes, and
in which directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import CORES
from hardsplat.base.progress import through
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, open_splats
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.model.harmonics import basis
from hardsplat.raster.renderer import Renderer
from hardsplat.results.model import find_model

# evenly spaced; more change the order of few splats. On a processor fewer.
MOST_VIEWS, FEW_VIEWS = 300, 100
PART = 1 << 13  # splats that a thread takes at once: what it makes of them fits a cache
HIDDEN = 3e-4  # of all contributions: splats that have no more together can be left out


def hidden(contributions: np.ndarray) -> np.ndarray:
    """(N,) bool: splats of the least contributions (N,), which together are a share HIDDEN of all.
    Without them, training views change by less than 0.002 dB."""
    order = np.argsort(contributions, kind="stable")
    shares = np.cumsum(contributions[order], dtype=np.float64)
    out = np.zeros(len(order), bool)
    out[order[shares <= HIDDEN * shares[-1]]] = True
    return out


@dataclass(frozen=True)
class SeenSplats:
    """Splats, and the cameras whose images they are weighed by. near: splats nearer than that are
    not drawn, world units. antialiased: they were trained so. complete: no view that they were
    trained on is missing. All methods raise UserError where no device can draw them."""

    gaussians: Gaussians
    cameras: Sequence[Camera]
    near: float = 0.01
    device: str | Device | None = None
    antialiased: bool = False
    quiet: bool = True
    complete: bool = True

    @classmethod
    def of_result(cls, result: Path, device: str | None, quiet: bool) -> SeenSplats:
        """Splats of a result folder, and up to MOST_VIEWS of the cameras that they were trained on.
        Raises UserError where anything is missing."""
        file, config = find_model(result, device=device)
        settings = config.scene
        if settings.data_dir is None:
            raise UserError(f"{result}: does not say which scene it was trained on")
        if not settings.data_dir.exists():
            raise UserError(f"{settings.data_dir}, the scene it was trained on, is not there")
        scene = load_scene(settings.data_dir, **settings.reading)
        gaussians = load_splats(file)
        if len(gaussians) < open_splats(file).count:
            raise UserError(f"{file}: some of its splats cannot be drawn")
        with closing(open_device(config.run.device)) as gpu:
            most = FEW_VIEWS if gpu.physical.kind == "CPU" else MOST_VIEWS
        chosen = spread(len(scene.train), most)
        cameras = [scene.views[i].camera for i in np.take(scene.train, chosen)]
        antialiased, complete = config.raster.antialiased, len(cameras) == len(scene.train)
        near, device = settings.near_plane, config.run.device
        return cls(gaussians, cameras, near, device, antialiased, quiet, complete)

    def contributions(self) -> np.ndarray:
        """(N,) float64: sum over the pixels of all cameras of alpha times the transmittance in
        front."""
        return self.directions(0)[:, 0] / SH_C0

    def directions(self, sh_degree: int) -> np.ndarray:
        """(N, (sh_degree + 1)^2) float64: sum over the pixels of all cameras of alpha times the
        transmittance in front times the SH basis in the direction of view."""
        n, means = len(self.gaussians), self.gaussians.means
        total = np.zeros((n, (sh_degree + 1) ** 2))

        def add(first: int, camera: Camera, weight: np.ndarray) -> None:
            shown = first + np.flatnonzero(weight[first : first + PART])
            rays = means[shown] - np.float32(camera.position)
            rays /= np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), np.float32(1e-30))
            total[shown] += weight[shown, None] * basis(rays, sh_degree)

        with ThreadPoolExecutor(CORES) as pool:  # arrays of this size leave Python to others
            for camera, weight in zip(self.cameras, self.weights()):
                for _ in pool.map(partial(add, camera=camera, weight=weight), range(0, n, PART)):
                    pass
        return total

    def weights(self) -> Iterator[np.ndarray]:
        """For each camera (N,) float32: the sum over its pixels of alpha times the transmittance in
        front, which is the gradient of the sum of all pixels by the splat's colour."""
        zeros = np.zeros((len(self.gaussians), 1, 3), np.float32)
        grey = replace(self.gaussians, sh=zeros, extra={}, check=False)
        with Renderer(self.device, "tiled", antialiased=self.antialiased) as renderer:
            renderer.keep(grey)
            for camera in through(self.cameras, "weighing", self.quiet):
                renderer.forward(grey, camera, near=self.near)
                d_image = np.zeros((camera.height, camera.width, 3), np.float32)
                d_image[..., 0] = 1
                yield renderer.contributions(d_image)[:, 0]
