"""Quantities that only these tests add are trained, copied, saved, resumed and exported."""

import numpy as np
import pytest

from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.tables import quantities
from hardsplat.tables.loss_terms import LOSS_TERMS, LossTerm
from hardsplat.tables.quantities import Quantity, Rate
from hardsplat.train import run_training as train
from tests.helpers.training import densified, open_session, same_state, settings

FIRST = {"warmth": 1.0, "gain": 2.0}
TOWARDS_ZERO = """
vec4 {0}_of(vec4 p) {{ return p * p; }}
vec4 d_{0}_of(vec4 p) {{ return 2.0 * p; }}
"""
GAIN = Quantity("gain", "photograph", 2, Rate("quats_lr"), gradient="none", first=FIRST["gain"])
OPACITIES = Rate("opacities_lr")
WARMTH = Quantity("warmth", "splat", 1, OPACITIES, gradient="none", first=FIRST["warmth"])


@pytest.fixture
def two_more(monkeypatch, tmp_path):
    """One number per splat, `warmth`, two per photograph, `gain`, each drawn to 0."""
    for quantity in (WARMTH, GAIN):
        name = quantity.name
        monkeypatch.setitem(quantities.QUANTITIES, name, quantity)
        file = tmp_path / f"{name}.glsl"
        file.write_text(TOWARDS_ZERO.format(name))
        term = LossTerm(str(file), name, lambda settings, extent: 1.0, "towards 0")
        monkeypatch.setitem(LOSS_TERMS, name, term)


def test_a_name_is_of_one_quantity():
    assert [q.name for q in quantities._ROWS] == [*quantities.QUANTITIES]


def test_two_more_numbers_from_the_first_step_to_the_files(on_device, scene, tmp_path, two_more):
    way = dict(rasterizer="tiled", deterministic=True)
    train(settings(scene, tmp_path / "run", checkpoint_every=20, **way))
    files = [checkpoints.path_of(tmp_path / "run", step) for step in (30, 20)]
    end, middle = map(checkpoints.load, files)
    assert end.splats > 300, "no splat was added"
    warmth, gain = end.buffers["warmth"], end.buffers["gain"]
    assert warmth.shape == (1, end.splats, 1) and gain.shape == (1, len(load_scene(scene).train), 2)
    # Also those of splats added on the way.
    assert ((warmth < FIRST["warmth"]) & (warmth > -0.5)).all()
    assert ((gain < FIRST["gain"]) & (gain > 0)).all()
    assert all(end.buffers[f"adam_{name}"].any(axis=(1, 2, 3)).all() for name in FIRST)

    train(settings(scene, tmp_path / "again", ckpt=files[1], **way))
    assert same_state(checkpoints.load(checkpoints.path_of(tmp_path / "again", 30)), end)
    assert middle.buffers["warmth"].mean() > warmth.mean()

    for suffix in (".ply", ".npz"):
        exported = tmp_path / f"splats{suffix}"
        save_splats(exported, load_splats(tmp_path / "run" / "splats.ply"))
        np.testing.assert_array_equal(load_splats(exported).extra["warmth"], warmth)


@pytest.mark.parametrize("strategy", ["adaptive", "mcmc"])
def test_children_have_the_numbers_of_their_parents(device, scene, tmp_path, two_more, strategy):
    own = dict(strategy=strategy, refine_start_iter=0, grow_grad2d=1e-9, cap_max=500)
    session = open_session(device, settings(scene, **own))
    state = session.snapshot()
    # Tells whose child it is.
    state.buffers["warmth"][:] = state.buffers["means"][..., :1] * 1000
    state.buffers["adam_warmth"][:] = 0
    session.restore(state)
    densified(session, 2)
    after = session.snapshot()
    assert after.splats > state.splats
    first = np.sort(state.buffers["warmth"].ravel())
    assert np.median(np.diff(first)) > 2
    # A step moves it by its learning rate at most.
    assert np.abs(after.buffers["warmth"][0] - first).min(axis=1).max() < 0.2
