"""Thickness of splats in the loss."""

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.settings.train import TrainConfig
from tests.helpers.drawing import fresh_seed
from tests.helpers.goldens import random_scene
from tests.helpers.training import frozen

SIZE, SPLATS, EXTENT, WEIGHT = (48, 32), 60, 2.0, 300.0
GEOMETRY = ("means", "quats", "log_scales", "logit_opacities")


def gradients(device, s: dict, weight: float, rasterizer: str) -> tuple[dict, np.ndarray]:
    """By name, of one step that moves no splat, and which splats it sees."""
    camera = Camera(s["w2c"], s["K"], *SIZE)
    config = TrainConfig.of(
        sh_degree=2, strategy="none", near_plane=0.01, flat_lambda=weight, rasterizer=rasterizer
    )
    photo = np.random.default_rng(0).integers(0, 256, (*SIZE[::-1], 3), np.uint8)
    session = frozen(device, config, [camera], [photo], extent=EXTENT)
    session.start(Gaussians(*(s[n] for n in ("means", "quats", "scales", "opacities", "sh"))))
    session.run(1)
    session.drain()
    read = lambda name: session.store.parameters.read(f"d_{name}", SPLATS)[0].astype(np.float64)
    seen = session.resources["seen"].download(np.uint32, SPLATS) > 0
    return {name: read(name) for name in GEOMETRY}, seen


@pytest.mark.parametrize("rasterizer", ("hardware", "tiled"))
def test_gradients_are_those_of_the_mean_smallest_scale(device, rasterizer):
    """By the logarithm of a scale that is the scale itself; discs and other axes have none."""
    s = random_scene(seed := fresh_seed(), SPLATS, *SIZE, 2)
    s["scales"][:20, 1] = 0.005 * s["scales"][:20].min(axis=1)  # discs
    found, seen = gradients(device, s, WEIGHT, rasterizer)
    base, _ = gradients(device, s, 0.0, rasterizer)
    scales = np.sort(s["scales"], axis=1)
    thick = (scales[:, 0] >= 0.01 * scales[:, 1]) & seen
    assert 20 < thick.sum() <= 40, seed
    wanted = np.zeros((SPLATS, 3))
    least = np.argmin(s["scales"], axis=1)
    wanted[thick, least[thick]] = WEIGHT / EXTENT / SPLATS * scales[thick, 0]
    got = (found["log_scales"] - base["log_scales"]) * seen[:, None]
    # measured: 1e-6 of the largest; float atomics add in any order
    assert np.abs(got - wanted).max() < 1e-4 * wanted.max(), seed
    for name in ("means", "quats", "logit_opacities"):
        assert np.allclose(found[name][seen], base[name][seen], rtol=1e-3, atol=1e-6), (name, seed)


def test_stochastic_gradients_have_none_of_it():
    with pytest.raises(UserError, match="--flat-lambda 0"):
        TrainConfig.of(gradient="stochastic", strategy="mcmc", flat_lambda=1.0).check_gradient()
