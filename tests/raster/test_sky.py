"""The sky behind splats against the float64 oracle: images, gradients of texels and splats."""

from dataclasses import replace

import numpy as np
import pytest

from hardsplat import Camera, Gaussians, Renderer
from hardsplat.io.model import sphere
from hardsplat.model.camera import Distortion
from hardsplat.model.sky import Sky, directions_of, octahedral
from tests.helpers.drawing import splats_of
from tests.helpers.goldens import random_scene, relative_l2, scene_of
from tests.oracle.lens import fisheye
from tests.oracle.render import render
from tests.oracle.sky import rays, weights

WIDTH, HEIGHT, SIDE = 61, 47, 12
ENDS = {"hardware": "none", "tiled": "after"}
FISHEYE = Distortion(True, (0.05, -0.02, 0.01, -0.003))
EXACT = {"format": "float32", "state_format": "float32"}
# relative errors of the image and of all gradients: twice to five times what was measured
CASES = [
    ("tiled", {}, None, (1e-5, 1e-4)),
    ("tiled", {"tile_backward": "gather"}, FISHEYE, (1e-5, 1e-4)),
    ("hardware", {**EXACT, "block": "1x1", "blending": "programmable"}, None, (1e-5, 1e-4)),
    ("hardware", {**EXACT, "segments": 2}, None, (1e-5, 1e-4)),
    ("hardware", {"format": "float16", "segments": 3}, FISHEYE, (2e-3, 2e-2)),
    ("hardware", {**EXACT, "ordering": "lists", "blending": "lists"}, None, (1e-5, 1e-4)),
]


@pytest.mark.parametrize("rasterizer, options, distortion, tolerances", CASES)
def test_images_and_gradients_against_the_oracle(
    device, rasterizer, options, distortion, tolerances
):
    s = random_scene(11, 40, WIDTH, HEIGHT, 1, overlap=3)
    colors = np.random.default_rng(3).uniform(0, 1, (SIDE, SIDE, 3))
    lens = fisheye(*distortion.coefficients) if distortion else None
    frame = render(**scene_of(s), lens=lens, termination=ENDS[rasterizer])
    share = weights(rays(s["w2c"], s["K"], WIDTH, HEIGHT, lens), SIDE)
    sky = (share @ colors.reshape(-1, 3)).reshape(HEIGHT, WIDTH, 3)
    wanted = frame.image + frame.T[..., None] * sky
    assert (frame.T > 0.5).mean() > 0.2 > (frame.T > 0.99).mean(), "no sky to be seen"
    splats, camera = splats_of(s)
    camera = replace(camera, distortion=distortion)
    splats.sky = Sky.of_colors(np.zeros((4, 4, 3)))  # a background takes its place
    with Renderer(device, rasterizer, **options) as renderer:
        image, _T = renderer.forward(splats, camera, background=colors)
        found = renderer.backward(s["weight"])
        # the next one begins with clean sums
        again = renderer.backward(s["weight"])["background"]
        own, _T = renderer.forward(replace(splats, sky=Sky.of_colors(colors)), camera)
    np.testing.assert_array_equal(own, image)
    assert relative_l2(image, wanted) < tolerances[0]
    d_sky = share.T @ (frame.T[..., None] * s["weight"]).reshape(-1, 3)
    assert relative_l2(found["background"].reshape(-1, 3), d_sky) < tolerances[1]
    np.testing.assert_array_equal(again, found["background"])
    if lens is None:
        d_T = (s["weight"] * sky).sum(2)
        exact = frame.backward(s["weight"].astype(np.float64), d_T)
        for name in ("means", "opacities", "sh"):
            assert relative_l2(found[name], exact[name]) < tolerances[1], name


def test_lookups_of_the_host():
    rng = np.random.default_rng(5)
    directions = rng.normal(size=(5000, 3))
    directions[:6] = np.concatenate([np.eye(3), -np.eye(3)])
    colors = rng.uniform(0, 1, (SIDE, SIDE, 3)).astype(np.float32)
    found = Sky.of_colors(colors).lookup(directions)[:, :3]
    wanted = weights(directions, SIDE) @ colors.reshape(-1, 3)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    np.testing.assert_allclose(directions_of(octahedral(directions)), unit, atol=1e-9)


def test_splats_on_a_far_sphere_look_like_the_sky(device):
    """Everywhere, from the middle of the scene and from its edge: no holes, few errors."""
    rng = np.random.default_rng(8)
    coarse = Sky.of_colors(rng.uniform(0.2, 0.8, (8, 8, 3)))
    places = (np.mgrid[0:64, 0:64].reshape(2, -1)[::-1].T + 0.5) / 64
    colors = coarse.lookup(directions_of(places))[:, :3].reshape(64, 64, 3)
    seen_so = sphere(Sky.of_colors(colors), np.array([0.1, 0.2, 0.3]), 30.0)
    nothing = Gaussians(
        np.full((1, 3), 1e6), np.eye(4)[:1], np.ones((1, 3)), [0.5], np.zeros((1, 1, 3))
    )
    K = np.array([[40.0, 0, 32], [0, 40.0, 24], [0, 0, 1]])
    with Renderer(device, "tiled") as renderer:
        for turn in np.linalg.qr(rng.normal(size=(6, 3, 3)))[0]:
            w2c = np.eye(4)
            w2c[:3, :3] = turn * np.linalg.det(turn)
            camera = Camera(w2c, K, 64, 48)
            wanted, _ = renderer.forward(nothing, camera, background=colors)
            found, T = renderer.forward(seen_so, camera)
            assert T.max() < 0.04  # 0.015 measured
            assert np.abs(found - wanted).mean() < 0.02, np.abs(found - wanted).max()


@pytest.mark.parametrize("colors", [np.zeros((3, 4, 3)), np.full((2, 2, 3), np.nan)])
def test_no_sky(device, colors):
    s = random_scene(1, 5, 16, 16, 0)
    with Renderer(device, "tiled") as renderer, pytest.raises(ValueError, match="a sky has"):
        renderer.forward(*splats_of(s), background=colors)


def test_directions_that_no_one_saw_get_colours():
    """Of a sky that is blue above and white at the horizon, whose lower half nothing saw."""
    places = (np.mgrid[0:32, 0:32].reshape(2, -1)[::-1].T + 0.5) / 32
    up = directions_of(places)[:, 2:]
    colors = np.clip(up, 0, 1) * [-0.5, -0.2, 0] + [1, 1, 1]
    seen = (up > 0.1).astype(np.float32)
    texels = np.concatenate([np.where(seen > 0, colors - 0.5, 0), seen], axis=1)
    sky = Sky(texels.astype(np.float32)).filled()
    np.testing.assert_allclose(sky.texels[seen[:, 0] > 0], texels[seen[:, 0] > 0], atol=1e-6)
    just_below = (up[:, 0] < 0.1) & (up[:, 0] > -0.1)
    assert np.abs(sky.texels[just_below, :3] + 0.5 - 1).max() < 0.25
    splats = sphere(sky, np.zeros(3), 10.0)
    lowest = splats.means[:, 2].min() / 10
    assert -0.12 < lowest < 0.1 - 0.02, "the sphere ends with the sky that was seen, and a margin"
