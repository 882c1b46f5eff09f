"""How a picture differs from the same one drawn in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.model.camera import Camera
from hardsplat.raster.core.parameters import Parameters
from hardsplat.view.gui.ui import Difference
from hardsplat.view.splats.screen import Look, Screen

LOUDEST = 2.0**20
USUAL = 0.999  # share of the differences that are shown as they are; the others are cut off


class Comparison:
    """Draws the other picture, by the blending unit in float32 or, where that cannot, in a
    shader."""

    def __init__(self, device: Device, look: Look):
        self._screen = Screen(device, look)

    def begin(
        self,
        parameters: Parameters,
        size: tuple[int, int],
        look: Look,
        camera: Camera,
        sh_degree: int,
    ) -> Sequence[Recorder]:
        """The commands that draw it, for the submission of the first. size, camera, look: of that,
        px. Raises UserError where the device has no such target."""
        self._screen.look = replace(look, options=replace(look.options, format="float32"))
        self._screen.fit(parameters, size, "image")
        self._screen.place(camera, sh_degree)
        return [self._screen.commands]

    def end(self, screen: Screen, width: int, height: int) -> tuple[Difference, np.ndarray]:
        """The difference of both pictures, which must be done, and (height, width, 4) uint8 of
        it."""
        screen.complete()
        both = (s.colors(width, height) for s in (screen, self._screen))
        return difference(*both)

    def destroy(self) -> None:
        """No picture may be in flight."""
        self._screen.destroy()


def difference(a: np.ndarray, b: np.ndarray) -> tuple[Difference, np.ndarray]:
    """Of (H, W, 3) images of 0..1, and (H, W, 4) uint8 of where they differ by how much."""
    apart = np.abs(np.clip(a, 0, 1) - np.clip(b, 0, 1))
    squared, largest = float(np.mean(apart.astype(np.float64) ** 2)), float(apart.max())
    psnr = -10 * np.log10(squared) if squared else np.inf
    usual = float(np.quantile(apart, USUAL)) or largest
    louder = min(2.0 ** np.floor(-np.log2(usual)), LOUDEST) if usual else 1.0
    texels = np.full((*apart.shape[:2], 4), 255, np.uint8)
    texels[..., :3] = np.rint(np.minimum(louder * apart, 1) * 255)
    return Difference(float(psnr), largest, float(louder)), texels
