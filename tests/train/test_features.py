"""Features as rows: the example of CONTRIBUTING, and photographs shifted beside cameras."""

from dataclasses import replace

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.model.camera import Camera
from hardsplat.settings.train import TrainConfig
from hardsplat.step.loss import loss_passes, tiles
from hardsplat.tables import quantities
from hardsplat.tables.quantities import Quantity, Rate
from hardsplat.train import features
from hardsplat.train.features.exposure import seen_parts
from hardsplat.train.features.feature import Feature, StepParts, one_group
from hardsplat.train.job.validation import held_views
from tests.helpers.examples import example
from tests.helpers.goldens import random_scene
from tests.helpers.tables import refuses
from tests.helpers.training import OneStep
from tests.oracle.differences import central

WIDTH, HEIGHT = 48, 32
FALLOFF = Quantity("falloff", "photograph", 1, Rate("exposure_lr"))
BESIDE = Quantity("beside", "photograph", 2, Rate("exposure_lr"), centred=True)
PASS = """
#include "common.glsl"
#include "contract/pose.glsl"
#include "contract/trained.glsl"
layout(local_size_x = GROUP) in;
UNIFORM_planes
"""
BEGIN = """
VALUE_beside(readonly)
BUFFER_frame(readonly)
BUFFER_camera(restrict)
void main() {
    if (gl_LocalInvocationID.x == 0u) camera.centre += beside(frame.view);
}
"""
GATHER = """
GRADIENT_beside(writeonly)
BUFFER_frame(readonly)
BUFFER_counts(readonly)
BUFFER_camera_sums(readonly)
#include "loss/sum.glsl"
void main() {
    vec3 sum = vec3(0.0);
    for (uint i = gl_LocalInvocationID.x; i * GROUP < counts.splats; i += GROUP)
        sum.xy += vec2(camera_sums[9u * i + 7u], camera_sums[9u * i + 8u]);
    sum = sum_group(sum);
    if (gl_LocalInvocationID.x == 0u) d_beside(frame.view) = sum.xy;
}
"""


@pytest.fixture
def add(monkeypatch):
    """Adds a feature and what it trains to the tables."""

    def added(quantity: Quantity, parts) -> None:
        row = Feature(f"feature of {quantity.name}", parts, lambda: [parts(None)])
        monkeypatch.setitem(quantities.QUANTITIES, quantity.name, quantity)
        monkeypatch.setattr(features, "FEATURES", (*features.FEATURES, row))

    return added


@pytest.fixture
def vignette(add, tmp_path):
    files = []
    for name, said in (("vignette", "exposure_of()"), ("vignette_chain", "void chain")):
        (tmp_path / f"{name}.glsl").write_text(example(said))
        files.append(str(tmp_path / f"{name}.glsl"))
    add(FALLOFF, lambda job: seen_parts(*files, [FALLOFF], tiles(*job.views.canvas) if job else 1))


@pytest.fixture
def beside(add, tmp_path):
    for name, text in (("begin", BEGIN), ("gather", GATHER)):
        (tmp_path / f"{name}.comp").write_text(PASS + text)
    passes = (
        ComputePass("b", str(tmp_path / "begin.comp"), ("frame", "camera", "beside"), ("camera",)),
        ComputePass(
            "g", str(tmp_path / "gather.comp"), ("frame", "counts", "camera_sums"), ("d_beside",)
        ),
    )
    record = {"begun": one_group("b"), "gradients": one_group("g")}
    add(BESIDE, lambda job: StepParts(passes, record=record))


def step_of(device, name: str, values, **more) -> OneStep:
    """A step of two photographs of one camera, before which `name` has these values."""
    scene = random_scene(1, 60, WIDTH, HEIGHT, 2)
    camera = Camera(scene["w2c"], scene["K"], WIDTH, HEIGHT)
    own = dict(exposure="none", ppisp_warm_up=1) | more
    return OneStep(device, scene, own, [camera] * 2, {name: values})


def test_an_image_seen_otherwise(device, vignette):
    """Its gradient against a central difference of the float64 oracle, and a step of Adam."""
    values = np.array([[0.3], [0.6]], np.float32)
    step = step_of(device, "falloff", values)
    y, x = (np.arange(n) + 0.5 - n / 2 for n in (HEIGHT, WIDTH))
    r2 = (x[None, :, None] ** 2 + y[:, None, None] ** 2) / WIDTH**2
    camera = step.session.job.views.cameras[0]
    loss = lambda f: step.loss(camera, lambda image: image * (1 - f * r2))
    expected = central(loss, step.before["falloff"], 1e-5)
    found = step.gradient("falloff")[step.view]
    assert abs(found - expected) < 1e-6 * abs(expected)  # 5e-8 was measured
    moved = step.session.store.trained("falloff")[0] - values
    assert np.sign(moved[step.view]) == -np.sign(expected) and not np.any(moved[1 - step.view])


@pytest.mark.parametrize("more", [{}, {"pose_opt": True, "intrinsics_opt": True}])
def test_a_camera_moved(device, beside, more):
    """By a feature alone or after others, with its gradient; the mean of it becomes 0."""
    values = np.array([[0.3, -0.4], [-0.25, 0.6]], np.float32)
    step = step_of(device, "beside", values, **more)
    camera = step.session.job.views.cameras[0]

    def loss(shift):
        K = camera.K.copy()
        K[:2, 2] += shift
        return step.loss(replace(camera, K=K))

    # steps so small that no fragment comes or goes at alpha = 1/255
    expected = central(loss, step.before["beside"], 1e-7)
    found, after = step.gradient("beside")[step.view], step.session.store.trained("beside")[0]
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.abs(after.mean(axis=0)).max() < 1e-6
    apart = np.diff(after - values, axis=0)[0] * (1 - 2 * step.view)
    assert (np.sign(apart) == np.sign(expected)).all()


def test_what_follows_from_a_row(monkeypatch):
    """No photograph is held back; stochastic gradients say that they find none of it."""
    row = replace(FALLOFF, chosen=("antialiased", (True,)))
    monkeypatch.setitem(quantities.QUANTITIES, "falloff", row)
    with_it = TrainConfig.of(antialiased=True)
    assert held_views(TrainConfig(), 100) and not held_views(with_it, 100)
    with pytest.raises(UserError, match="add --no-antialiased or --gradient analytic"):
        with_it.changed(gradient="stochastic", strategy="none").check_gradient()


def test_features_of_one_slot_exclude_each_other(device, vignette):
    words = "exposure and feature of falloff exclude each other"
    refuses(words, step_of, device, "falloff", 0.0, exposure="affine")
    filled = [p.slots.get("exposure", "") for p in features.variants(loss_passes())]
    assert any("vignette" in file for file in filled) and any("affine" in file for file in filled)
