"""The feature that CONTRIBUTING adds as an example: light that each photograph loses towards its
edges."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.settings.train import TrainConfig
from hardsplat.step.loss import tiles
from hardsplat.tables import quantities
from hardsplat.tables.quantity import Quantity, Rate
from hardsplat.train import features
from hardsplat.train.features.exposure import seen_parts
from hardsplat.train.features.feature import Feature
from tests.helpers.examples import example
from tests.helpers.goldens import random_scene
from tests.helpers.training import frozen
from tests.oracle import loss as oracle_loss
from tests.oracle.render import render

WIDTH, HEIGHT = 48, 32
FALLOFF = Quantity("falloff", "photograph", 1, Rate("exposure_lr"))


@pytest.fixture
def vignette(monkeypatch, tmp_path):
    files = []
    for name, said in (("vignette", "exposure_of()"), ("vignette_chain", "void chain")):
        (tmp_path / f"{name}.glsl").write_text(example(said))
        files.append(str(tmp_path / f"{name}.glsl"))
    parts = lambda job: seen_parts(*files, [FALLOFF], tiles(*job.views.canvas))
    row = Feature("vignette", parts, lambda: [seen_parts(*files, [FALLOFF])])
    monkeypatch.setitem(quantities.QUANTITIES, FALLOFF.name, FALLOFF)
    monkeypatch.setattr(features, "FEATURES", (*features.FEATURES, row))


def test_a_feature_of_a_row(device, vignette):
    """Its gradient against a central difference of the float64 oracle, and a step of Adam."""
    s, rng = random_scene(1, 60, WIDTH, HEIGHT, 2), np.random.default_rng(3)
    photos = [rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8) for _ in range(2)]
    own = dict(sh_degree=2, sh_degree_interval=1, near_plane=0.01, ppisp_warm_up=1)
    config = TrainConfig.of(strategy="none", format="float32", exposure="none", **own)
    session = frozen(device, config, [Camera(s["w2c"], s["K"], WIDTH, HEIGHT)] * 2, photos)
    splats = {name: s[name] for name in ("means", "quats", "scales", "opacities", "sh")}
    session.start(Gaussians(*splats.values()))
    state = session.snapshot()
    state.step, state.buffers["falloff"][0] = 2, [[0.3], [0.6]]
    session.restore(state)
    session.run(1)
    view = int(session.resources["frame"].download(contract.dtype("Frame"))[0]["view"])
    found = float(session.store.parameters.read("d_falloff", 2)[0, view, 0])
    image = render(**splats, w2c=s["w2c"], K=s["K"], width=WIDTH, height=HEIGHT, sh_degree=2).image
    y, x = (np.arange(n) + 0.5 - n / 2 for n in (HEIGHT, WIDTH))
    r2 = (x[None, :, None] ** 2 + y[:, None, None] ** 2) / WIDTH**2

    def loss(falloff: float) -> float:
        return oracle_loss.l1_dssim(image * (1 - falloff * r2), photos[view] / 255)[0]

    at = float(state.buffers["falloff"][0, view, 0])
    expected = (loss(at + 1e-5) - loss(at - 1e-5)) / 2e-5
    assert abs(found - expected) < 1e-6 * abs(expected)  # 5e-8 was measured
    after = session.store.trained("falloff")[0, :, 0]
    assert (
        np.sign(after[view] - at) == -np.sign(expected)
        and after[1 - view] == state.buffers["falloff"][0, 1 - view, 0]
    )
