"""Cameras that distort, drawn as they are: images and gradients against the float64 oracle."""

import cv2
import numpy as np
import pytest

from hardsplat.model.camera import Distortion
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from tests.helpers.drawing import BACKGROUND, PARAMETERS, clear_scene
from tests.helpers.goldens import relative_l2, scene_of
from tests.oracle import lens as oracle
from tests.oracle.differences import central
from tests.oracle.render import render

WIDTH, HEIGHT, SPLATS = 48, 32, 12
LENSES = {
    "perspective": Distortion(False, (-0.2, 0.05, 0.01, -0.02, 0.01, 0.03, -0.02, 0.005)),
    "fisheye": Distortion(True, (0.05, -0.02, 0.01, -0.003)),
    "plain fisheye": Distortion(True, (0.0, 0.0, 0.0, 0.0)),
}
SINGLE = {"block": "1x1", "format": "float32", "state_format": "float32"}
PAIRS = [(name, "hardware", SINGLE) for name in ("perspective", "fisheye")]
PAIRS += [(name, "tiled", {"antialiased": True}) for name in ("perspective", "fisheye")]
PAIRS += [("plain fisheye", "tiled", {})]


def of_oracle(distortion: Distortion):
    return (oracle.fisheye if distortion.fisheye else oracle.perspective)(*distortion.coefficients)


@pytest.mark.parametrize("name", LENSES)
def test_where_rays_go(name):
    """Camera and oracle agree, and so does OpenCV."""
    d, rays = LENSES[name], np.random.default_rng(0).uniform(-1.5, 1.5, (50, 2))
    wanted, jacobian = of_oracle(d)(rays)
    assert np.abs(d(rays) - wanted).max() < 1e-12
    straight = np.concatenate([rays, np.ones((50, 1))], axis=1)[:, None]
    of_cv = cv2.fisheye.projectPoints if d.fisheye else cv2.projectPoints
    none = np.zeros(3)
    found = of_cv(straight, none, none, np.eye(3), np.array(d.coefficients))[0].reshape(-1, 2)
    assert np.abs(found - wanted).max() < 1e-9
    change = (d(rays + [1e-6, 0]) - d(rays - [1e-6, 0])) / 2e-6
    assert np.abs(change - jacobian[:, :, 0]).max() < 1e-8


@pytest.mark.parametrize("name, rasterizer, options", PAIRS)
def test_image_and_gradients_against_the_oracle(device, name, rasterizer, options):
    """By central differences in float64, of splats in the middle and at the edges."""
    scene = clear_scene(SPLATS, WIDTH, HEIGHT, 1, seed=5)
    w2c, weight, distortion = scene["w2c"], scene["weight"], LENSES[name]
    camera = Camera(w2c, scene["K"], WIDTH, HEIGHT, distortion)
    assert camera.reach > 0.3
    splats = Gaussians(*(scene[n] for n in PARAMETERS))
    with Renderer(device, rasterizer, **options) as renderer:
        image, _ = renderer.forward(splats, camera, background=BACKGROUND)
        gradients = renderer.backward(weight)

    inputs = {**scene_of(scene), **{n: scene[n].astype(np.float64) for n in PARAMETERS}}
    shown = dict(background=np.array(BACKGROUND), antialiased=options.get("antialiased", False))
    end = "after" if rasterizer == "tiled" else "none"
    bent = dict(**shown, termination=end, lens=of_oracle(distortion))
    wanted, straight = render(**inputs, **bent), render(**inputs, **shown)
    p = scene["means"] @ w2c[:3, :3].T + w2c[:3, 3]
    assert np.sum((p[:, :2] / p[:, 2:]) ** 2, axis=1).max() < camera.reach
    assert wanted.projection.visible.sum() >= SPLATS // 2
    assert relative_l2(image, wanted.image) < 1e-4 < 1e-2 < relative_l2(image, straight.image)
    for parameter in PARAMETERS:
        loss = lambda value: np.sum(weight * render(**inputs | {parameter: value}, **bent).image)
        exact = central(loss, inputs[parameter], 1e-7)
        assert np.abs(exact).max() > 0
        assert relative_l2(gradients[parameter], exact) < 3e-4, parameter
