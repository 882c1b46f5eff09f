"""Exposures of photographs, found in the colours in which they show the points of the model."""

from pathlib import Path

import numpy as np
import pytest

from hardsplat.io.scenes.views import View
from hardsplat.model.camera import Camera
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.job import Job
from hardsplat.train.job.light import Light, light_of
from hardsplat.train.job.views import Views

VIEWS, SIZE, FOCAL, DEPTH, POINTS, SEED = 12, (64, 48), 60.0, 4.0, 400, 5
TEXTURE = np.array([[3.0, 1.0], [1.5, -2.0], [-0.7, 2.5]])  # rad a world unit, by colour


def wall(at: np.ndarray) -> np.ndarray:
    """(..., 3) colours in 0..1 of places (..., 2) on a wall at DEPTH."""
    return 0.35 + 0.2 * np.sin(at @ TEXTURE.T)


def photographs(gains: np.ndarray, rng):
    """Views of a wall, their images, points on it and which of them each view shows."""
    w, h = SIZE
    K = np.array([[FOCAL, 0, w / 2], [0, FOCAL, h / 2], [0, 0, 1]])
    points = np.column_stack([rng.uniform(-3, 3, (POINTS, 2)), np.full(POINTS, DEPTH)])
    pixel = np.stack(np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5), axis=-1)
    views, images, seen = [], [], {}
    for i, gain in enumerate(gains):
        w2c, shift = np.eye(4), rng.uniform(-1, 1, 2)
        w2c[:2, 3] = -shift
        views.append(View(f"{i}.png", Camera(w2c, K, w, h), Path("none")))
        at = (pixel - K[:2, 2]) / FOCAL * DEPTH + shift
        images.append(np.clip(np.round(255 * gain * wall(at)), 0, 255).astype(np.uint8))
        seen[views[-1].name] = views[-1].camera.pixels(points)[0]
    return views, images, points, seen


def test_gains_are_found_where_photographs_differ():
    rng = np.random.default_rng(SEED)
    gains = rng.uniform(0.7, 1.4, (VIEWS, 3))
    light = light_of(*photographs(gains, rng))
    true = np.log(gains) - np.log(gains).mean(axis=0)
    # 8 bits, and a texture that moves by less than a pixel: 0.006 measured
    assert np.abs(light.gains - true).max() < 0.015, f"seed {SEED}"
    assert light.differs and light.left < 0.2
    affine = light.affine
    assert affine.shape == (3, VIEWS, 3) and np.abs(affine.mean(axis=1)).max() < 1e-6
    diagonal = 1 + np.diagonal(affine, axis1=0, axis2=2)
    assert np.allclose(diagonal / diagonal.mean(axis=0), gains / gains.mean(axis=0), atol=0.02)
    assert not affine[0, :, 1:].any()


def test_steady_light_is_left_alone():
    rng = np.random.default_rng(SEED)
    views, images, points, seen = photographs(np.ones((VIEWS, 3)), rng)
    light = light_of(views, images, points, seen)
    assert not light.differs and np.abs(light.gains).max() < 0.01
    nothing = light_of(views, images, points, {})
    assert nothing.left == 1 and nothing.gains.shape == (VIEWS, 3) and not nothing.gains.any()


def test_masked_and_saturated_pixels_do_not_count():
    rng = np.random.default_rng(SEED)
    views, images, points, seen = photographs(np.ones((VIEWS, 3)), rng)
    opaque = [np.dstack([im, np.full(im.shape[:2], 255, np.uint8)]) for im in images]
    for im in opaque[::2]:
        im[:, :32] = (60, 60, 60, 0)  # a mask leaves it out
    images[1][:24] = 255
    for changed in (opaque, images):
        light = light_of(views, changed, points, seen)
        assert np.abs(light.gains).max() < 0.015 and not light.differs


@pytest.mark.parametrize("left, chosen", [(0.5, "affine"), (0.9, "none")])
def test_auto_follows_the_light(left, chosen):
    light = Light(np.zeros((3, 3)), left)
    job = Job(TrainConfig(), Views([], (1, 1), 1.0), TrainConfig().densify, "float32", ())
    assert job.config.exposure.exposure == "auto" and not job.exposed_until
    lit = job.lit(light)
    assert lit.config.exposure.exposure == chosen and lit.light is light
    assert lit.exposed_until == (0.6 * job.steps if chosen == "affine" else 0)
    named = Job(TrainConfig.of(exposure="ppisp"), job.views, job.densify, "float32", ())
    assert named.lit(light).config.exposure.exposure == "ppisp"
