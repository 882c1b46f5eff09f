"""Thickness of splats in the loss."""

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.settings.train import TrainConfig
from tests.helpers.drawing import fresh_seed
from tests.helpers.goldens import random_scene
from tests.helpers.training import OneStep

SPLATS, EXTENT, WEIGHT = 60, 2.0, 300.0


@pytest.mark.parametrize("rasterizer", ("hardware", "tiled"))
def test_gradients_are_those_of_the_mean_smallest_scale(device, rasterizer):
    """By the logarithm of a scale that is the scale itself; discs and other axes have none."""
    s = random_scene(seed := fresh_seed(), SPLATS, 48, 32, 2)
    s["scales"][:20, 1] = 0.005 * s["scales"][:20].min(axis=1)  # discs
    own = lambda weight: dict(flat_lambda=weight, rasterizer=rasterizer)
    step, plain = (OneStep(device, s, own(w), extent=EXTENT) for w in (WEIGHT, 0.0))
    seen, scales = step.seen, np.sort(s["scales"], axis=1)
    thick = (scales[:, 0] >= 0.01 * scales[:, 1]) & seen
    assert 20 < thick.sum() <= 40, seed
    wanted = np.zeros((SPLATS, 3))
    least = np.argmin(s["scales"], axis=1)
    wanted[thick, least[thick]] = WEIGHT / EXTENT / SPLATS * scales[thick, 0]
    got = step.gradient("log_scales") - plain.gradient("log_scales")
    # measured: 1e-6 of the largest; float atomics add in any order
    assert np.abs(got - wanted).max() < 1e-4 * wanted.max(), seed
    for name in ("means", "quats", "logit_opacities"):
        both = step.gradient(name), plain.gradient(name)
        assert np.allclose(*both, rtol=1e-3, atol=1e-6), (name, seed)


def test_stochastic_gradients_have_none_of_it():
    with pytest.raises(UserError, match="--flat-lambda 0"):
        TrainConfig.of(gradient="stochastic", strategy="mcmc", flat_lambda=1.0).check_gradient()
