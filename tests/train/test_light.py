"""Exposures of photographs, found in the colours in which they show the points of the model."""

from pathlib import Path

import numpy as np
import pytest

from hardsplat.io.scenes.views import View
from hardsplat.model.camera import Camera
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job import light as light_module
from hardsplat.train.job.job import Job
from hardsplat.train.job.light import ASKED, SPREAD, Light, light_of
from hardsplat.train.job.views import Views

VIEWS, SIZE, FOCAL, DEPTH, POINTS, SEED = 12, (64, 48), 60.0, 4.0, 400, 5
TEXTURE = np.array([[3.0, 1.0], [1.5, -2.0], [-0.7, 2.5]])  # rad a world unit, by colour


def wall(at: np.ndarray) -> np.ndarray:
    """(..., 3) colours in 0..1 of places (..., 2) on a wall at DEPTH."""
    return 0.35 + 0.2 * np.sin(at @ TEXTURE.T)


def photographs(gains: np.ndarray, rng, along: np.ndarray | None = None):
    """Views of a wall, their images, points on it and which of them each view shows. along: where
    each camera is, in a row, world units; by default all are near one place."""
    w, h = SIZE
    K = np.array([[FOCAL, 0, w / 2], [0, FOCAL, h / 2], [0, 0, 1]])
    width = 3 if along is None else along.max() + 3
    across = rng.uniform(-3, width, POINTS), rng.uniform(-3, 3, POINTS)
    points = np.column_stack([*across, np.full(POINTS, DEPTH)])
    pixel = np.stack(np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5), axis=-1)
    views, images, seen = [], [], {}
    for i, gain in enumerate(gains):
        w2c, shift = np.eye(4), rng.uniform(-1, 1, 2)
        shift[0] += 0 if along is None else along[i]
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
    assert light.left < 0.2 and light.differs
    # all show many of the points that the others show, so that these know nothing of one's own
    assert light.spread == pytest.approx(true.std(), rel=0.25)
    assert not light_of(*photographs(gains**0.3, rng)).differs


def test_light_that_changes_from_place_to_place_does_not_count():
    """Photographs in a row, each of which shows what its neighbours show, get brighter and darker
    along it."""
    rng, n = np.random.default_rng(SEED), 24
    along = np.linspace(0, 24, n)
    gains = np.exp(0.5 * np.sin(along / 4))[:, None] * np.ones(3)  # spread by 0.35
    light = light_of(*photographs(gains, rng, along))
    assert light.spread < 0.15 and not light.differs  # 0.09 to 0.11 measured, four seeds
    mixed = light_of(*photographs(rng.permutation(gains), rng, along))
    assert mixed.spread > 0.3 and mixed.differs  # 0.39 to 0.44 measured


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


def test_some_of_many_photographs_are_asked(monkeypatch):
    rng, read, colors = np.random.default_rng(SEED), [], light_module._colors
    monkeypatch.setattr(light_module, "_colors", lambda *a: read.append(a[0]) or colors(*a))
    for spread, asked in ((0.02, ASKED), (0.5, ASKED + 9)):  # all, where these differ
        light = light_of(*photographs(rng.uniform(1 - spread, 1 + spread, (ASKED + 9, 3)), rng))
        assert len(light.gains) == asked and light.differs is (asked > ASKED)
        assert len(read) == asked  # each once
        read.clear()


def test_one_odd_photograph_decides_nothing():
    rng, odd = np.random.default_rng(SEED), np.ones((VIEWS, 3))
    odd[3] = 0.3
    light = light_of(*photographs(odd, rng))
    # five seeds: 0.002 to 0.003, and 0.22 to 0.23 of two
    assert light.gains[3].mean() < -1 and light.spread < 0.01 and not light.differs
    odd[7] = 2.2  # two of twelve
    assert light_of(*photographs(odd, rng)).differs


def test_few_colours_tell_nothing():
    """Three points of a photograph, whose colours vary, look like a gain of it."""
    rng = np.random.default_rng(SEED)
    views, images, points, seen = photographs(rng.uniform(0.7, 1.4, (VIEWS, 3)), rng)
    few = {name: which[:: len(which) // 12] for name, which in seen.items()}
    light = light_of(views, images, points, few)
    assert light.left == 1 and not light.gains.any() and not light.differs
    few[views[0].name] = seen[views[0].name]
    assert not light_of(views, images, points, few).differs


@pytest.mark.parametrize("left, spread", [(0.5, 0.3), (0.5, 0.1), (0.9, 0.3)])
def test_auto_follows_the_light(left, spread):
    light, differs = Light(np.zeros((3, 3)), spread, left), left < 0.7 and spread > SPREAD
    job = Job(TrainConfig(), Views([], (1, 1), 1.0), TrainConfig().densify, "float32", (), (1, 2))
    assert job.config.exposure.exposure == "auto"
    lit = job.lit(light)
    assert lit.config.exposure.exposure == ("affine" if differs else "none")
    assert not lit.exposed_until and lit.validation == (() if differs else (1, 2))
    assert lit.config.loss.opacity_reg == (0.01 if differs else 0)
    assert lit.steps == (8_000 if differs else 18_000) == lit.strategy.steps
    as_long = Job(TrainConfig.of(overfit_epochs=0), job.views, job.densify, "float32", ())
    assert as_long.lit(light).steps == 18_000
