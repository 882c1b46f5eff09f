"""Features that are added as rows: light that each photograph loses towards its edges, the example
of CONTRIBUTING, and photographs that lie a little beside what their cameras drew."""

from dataclasses import replace

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
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
from tests.helpers.training import frozen
from tests.oracle import loss as oracle_loss
from tests.oracle.render import render

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


class Step:
    """A step of two photographs of one camera, before which `name` has these values, an item each.
    view: whose step it was. found: its gradient. after: the values."""

    def __init__(self, device, name: str, values, **more):
        self.scene, rng = random_scene(1, 60, WIDTH, HEIGHT, 2), np.random.default_rng(3)
        self.photos = [rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8) for _ in range(2)]
        own = dict(sh_degree=2, sh_degree_interval=1, near_plane=0.01, ppisp_warm_up=1)
        own |= dict(strategy="none", format="float32", exposure="none")
        camera = Camera(self.scene["w2c"], self.scene["K"], WIDTH, HEIGHT)
        session = frozen(device, TrainConfig.of(**own | more), [camera] * 2, self.photos)
        names = "means", "quats", "scales", "opacities", "sh"
        self.splats = {each: self.scene[each] for each in names}
        session.start(Gaussians(*self.splats.values()))
        state = session.snapshot()
        state.step, state.buffers[name][0] = 2, values
        session.restore(state)
        session.run(1)
        frame = session.resources["frame"].download(contract.dtype("Frame"))[0]
        self.view, self.before = int(frame["view"]), state.buffers[name][0].astype(np.float64)
        self.found = session.store.parameters.read(f"d_{name}", 2)[0, self.view]
        self.after = session.store.trained(name)[0]

    def loss(self, change=lambda image: image, shift=(0.0, 0.0)) -> float:
        """By the oracle, of a changed image, whose camera has its centre elsewhere, px."""
        K = self.scene["K"].astype(np.float64)
        K[:2, 2] += shift
        own = dict(w2c=self.scene["w2c"], K=K, width=WIDTH, height=HEIGHT, sh_degree=2)
        image = change(render(**self.splats, **own).image)
        return oracle_loss.l1_dssim(image, self.photos[self.view] / 255)[0]

    def difference(self, loss, step: float) -> np.ndarray:
        """The central difference of a loss of the values of the photograph."""
        at = self.before[self.view]
        ways = step * np.eye(len(at))
        return np.array([loss(at + way) - loss(at - way) for way in ways]) / (2 * step)


def test_an_image_seen_otherwise(device, vignette):
    """Its gradient against a central difference of the float64 oracle, and a step of Adam."""
    step = Step(device, "falloff", [[0.3], [0.6]])
    y, x = (np.arange(n) + 0.5 - n / 2 for n in (HEIGHT, WIDTH))
    r2 = (x[None, :, None] ** 2 + y[:, None, None] ** 2) / WIDTH**2
    expected = step.difference(lambda f: step.loss(lambda image: image * (1 - f * r2)), 1e-5)
    assert abs(step.found - expected) < 1e-6 * abs(expected)  # 5e-8 was measured
    moved = step.after - step.before
    assert np.sign(moved[step.view]) == -np.sign(expected) and not np.any(moved[1 - step.view])


@pytest.mark.parametrize("more", [{}, {"pose_opt": True, "intrinsics_opt": True}])
def test_a_camera_moved(device, beside, more):
    """A feature moves the camera of a step, alone or after others: its gradient likewise; the mean
    of what it trains becomes 0."""
    step = Step(device, "beside", [[0.3, -0.4], [-0.25, 0.6]], **more)
    # steps so small that no fragment comes or goes at alpha = 1/255
    expected = step.difference(lambda shift: step.loss(shift=shift), 1e-7)
    assert np.abs(step.found - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.abs(step.after.mean(axis=0)).max() < 1e-6
    apart = np.diff(step.after - step.before, axis=0)[0] * (1 - 2 * step.view)
    assert (np.sign(apart) == np.sign(expected)).all()


def test_what_follows_from_a_row(monkeypatch):
    """No photograph is held back, since nothing is known of its own numbers; stochastic gradients
    say that they find none."""
    row = replace(FALLOFF, chosen=("antialiased", (True,)))
    monkeypatch.setitem(quantities.QUANTITIES, "falloff", row)
    with_it = TrainConfig.of(antialiased=True)
    assert held_views(TrainConfig(), 100) and not held_views(with_it, 100)
    with pytest.raises(UserError, match="add --no-antialiased or --gradient analytic"):
        with_it.changed(gradient="stochastic", strategy="none").check_gradient()


def test_features_of_one_slot_exclude_each_other(device, vignette):
    with pytest.raises(UserError, match="exposure and feature of falloff exclude each other"):
        Step(device, "falloff", 0.0, exposure="affine")
    filled = [p.slots.get("exposure", "") for p in features.variants(loss_passes())]
    assert any("vignette" in file for file in filled) and any("affine" in file for file in filled)
