"""Pipelines that threads build ahead of a training, out of the way of others."""

from dataclasses import replace

import numpy as np
import pytest

from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import begin_all, build_all
from hardsplat.gpu.passes.shader import ShaderError
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.settings.train import TrainConfig
from hardsplat.step.photos import Photos
from hardsplat.train.job.facts import Views
from hardsplat.train.measure.measure import Evaluator
from hardsplat.train.session.session import Session, build_ahead
from tests.helpers.training import job_of

WIDTH, HEIGHT = 32, 24


@pytest.fixture
def nothing_built(device, monkeypatch):
    monkeypatch.setattr(device, "pipelines", {})
    return device


RUNS = [{}, {"strategy": "mcmc", "sh_degree": 1}]
RUNS.append({"strategy": "adaptive", "exposure": "ppisp", "pose_opt": True})


@pytest.mark.parametrize("run", RUNS)
def test_a_session_builds_nothing_that_was_not_begun(nothing_built, run):
    config = TrainConfig.of(rasterizer="tiled", max_steps=10, cap_max=100, **run)
    device = nothing_built
    K = np.array([[30.0, 0, WIDTH / 2], [0, 30.0, HEIGHT / 2], [0, 0, 1]])
    views = Views([Camera(np.eye(4), K, WIDTH, HEIGHT)], (WIDTH, HEIGHT), 1.0)
    job = replace(job_of(device, config, views), rasterizers=("tiled", "hardware"))
    build_ahead(device, job)
    begun = set(device.pipelines)
    photos = Photos(device, [np.zeros((HEIGHT, WIDTH, 3), np.uint8)], "gpu", 2)
    session = Session(device, job, photos, lambda batch: None)
    means = np.random.default_rng(0).normal(size=(50, 3))
    colors = np.zeros((50, 3), np.uint8)
    session.start(Gaussians.from_points(means, colors, job.config.model.sh_degree))
    session.switch_rasterizer("hardware", timed_rows=False)
    Evaluator(session.raster).destroy()
    session.destroy()
    assert len(begun) > 40 and set(device.pipelines) <= begun


def test_what_cannot_be_built_is_said_where_it_is_needed(nothing_built):
    broken = ComputePass("broken", "no/such.comp")
    begin_all(nothing_built, [broken])  # raises nothing
    for _ in range(2):
        with pytest.raises((ShaderError, OSError), match="no/such.comp"):
            build_all(nothing_built, [broken])
    assert broken.key() not in nothing_built.pipelines
