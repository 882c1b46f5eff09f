"""Gradient error of a variant against a float32 target and state with the same other options."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import View
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import BACKENDS, rasterizer_named
from hardsplat.raster.renderer import Renderer
from hardsplat.study.tables import GRADIENTS

BACKGROUND, NEAR = (1.0, 1.0, 1.0), 0.2  # as in the paper's harness


class GradientErrors:
    """Gradients of a model in some views, with a reference that is kept."""

    def __init__(self, device: Device, views: list[View], gaussians: Gaussians):
        self.device, self.views, self.gaussians = device, views, gaussians
        self._reference: tuple | None = None  # (what it is of, gradients)

    def __call__(
        self, rasterizer: str, options: dict, all_views: bool = False
    ) -> tuple[dict[str, float], dict[str, float]]:
        """(relative L2, cosine) of each gradient, over all splats and all numbers of a splat, of
        the first view or of all views together. Splats that are not visible have zeros in both.

        Gradients are those of the Python API, with respect to linear scales and opacities in 0..1,
        for uniform random upstream gradients in 0..1. They do not depend on how moments are stored.
        """
        options = {name: value for name, value in options.items() if name != "moments"}
        sums = {name: np.zeros(4) for name in GRADIENTS}  # |a - b|^2, |a|^2, |b|^2, a . b
        for i in range(len(self.views) if all_views else 1):
            wanted = self._exact(rasterizer, options, i)
            actual = self.gradients(rasterizer, options, i)
            for name in GRADIENTS:
                a, b = actual[name].ravel(), wanted[name].ravel()
                d = a - b
                pairs = (d, d), (a, a), (b, b), (a, b)
                sums[name] += [np.dot(x.astype(np.float64), y) for x, y in pairs]
        errors, cosines = {}, {}
        for name, (dd, aa, bb, ab) in sums.items():
            errors[name] = float(np.sqrt(dd / bb)) if bb else 0.0
            cosines[name] = float(ab / np.sqrt(aa * bb)) if aa and bb else 1.0
        return errors, cosines

    def gradients(self, rasterizer: str, options: dict, view: int = 0) -> dict[str, np.ndarray]:
        """Gradients of a view, by position in `views`, for random upstream gradients."""
        camera = self.views[view].camera
        with Renderer(self.device, rasterizer_named(rasterizer), **options) as renderer:
            renderer.forward(self.gaussians, camera, background=BACKGROUND, near=NEAR)
            rng, shape = np.random.default_rng(view), (camera.height, camera.width, 3)
            return renderer.backward(rng.random(shape, np.float32))

    def _exact(self, rasterizer: str, options: dict, view: int) -> dict[str, np.ndarray]:
        """The reference, kept until another one is asked for."""
        exact: dict = dict(format="float32", state_format="same", tile_backward="atomic")
        exact |= dict(gradient="analytic", least_transmittance=1e-4)
        known = {f.name for f in fields(BACKENDS[rasterizer].options)}
        options = options | {name: value for name, value in exact.items() if name in known}
        key = (rasterizer, tuple(sorted(options.items())), view)
        if self._reference is None or self._reference[0] != key:
            self._reference = None  # its memory, before more is taken
            self._reference = (key, self.gradients(rasterizer, options, view))
        return self._reference[1]
