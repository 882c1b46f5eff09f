"""Lobes of colour: both rasterizers against the float64 oracle, forward and backward."""

import numpy as np
import pytest

from hardsplat.raster.renderer import Renderer
from tests.helpers.drawing import clear_scene, splats_of
from tests.helpers.goldens import relative_l2, scene_of
from tests.oracle import render


@pytest.mark.parametrize("rasterizer, early", [("tiled", "after"), ("hardware", "none")])
@pytest.mark.parametrize("sh_degree", [0, 1])
def test_image_and_gradients_agree_with_the_oracle(device, rasterizer, early, sh_degree):
    options = {"blending": "fixed", "format": "float32"} if rasterizer == "hardware" else {}
    scene = clear_scene(60, 40, 33, sh_degree)
    rng = np.random.default_rng(scene["seed"])
    axes, colors = rng.normal(0, 1, (2, 2, 60, 3)).astype(np.float32)
    axes[:, 0] = 0  # a lobe of all directions alike has no gradient of its axis
    gaussians, camera = splats_of(scene)
    gaussians.extra = {"lobe_colors": colors, "lobe_axes": axes}
    with Renderer(device, rasterizer, **options) as renderer:
        image, _ = renderer.forward(gaussians, camera)
        found = renderer.backward(scene["weight"])
        plain, _ = renderer.forward(splats_of(scene)[0], camera)
    exact_axes = np.where(axes == 0, 1e-12, axes)
    frame = render(**scene_of(scene), lobes=(exact_axes, colors), termination=early)
    wanted = frame.backward(scene["weight"].astype(np.float64))
    wanted |= dict(zip(("lobe_axes", "lobe_colors"), wanted["lobes"]))
    assert relative_l2(image, frame.image) < 3e-4
    assert np.abs(plain - image).max() > 0.1
    for name in ("means", "sh", "lobe_colors", "lobe_axes", "opacities"):
        assert relative_l2(found[name], wanted[name]) < 3e-3, (name, scene["seed"])
