"""The table of what is trained: a number per splat and one per photograph that only these tests add are trained, copied, saved, resumed and exported."""

import numpy as np
import pytest

from hardsplat import trained
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.scene import load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.raster.parameters import Parameters
from hardsplat.train.trainer import train
from hardsplat.trained import Quantity, Rate
from hardsplat.variants.loss_terms import LOSS_TERMS, LossTerm
from tests.training import densified, open_session, same_state, settings

FIRST = {"warmth": 1.0, "gain": 2.0}
TOWARDS_ZERO = "vec4 {0}_of(vec4 p) {{ return p * p; }}\nvec4 d_{0}_of(vec4 p) {{ return 2.0 * p; }}\n"


@pytest.fixture
def two_more(monkeypatch, tmp_path):
    """One number per splat, `warmth`, and two per photograph, `gain`, each with a term of the loss that draws it to 0."""
    for quantity in (
        Quantity("warmth", "splat", 1, Rate("opacities_lr"), gradient="none", first=FIRST["warmth"]),
        Quantity("gain", "photograph", 2, Rate("quats_lr"), gradient="none", first=FIRST["gain"]),
    ):
        monkeypatch.setitem(trained.QUANTITIES, quantity.name, quantity)
        term = tmp_path / f"{quantity.name}.glsl"
        term.write_text(TOWARDS_ZERO.format(quantity.name))
        monkeypatch.setitem(LOSS_TERMS, quantity.name, LossTerm(str(term), quantity.name, lambda settings, extent: 1.0, "towards 0"))


def test_two_more_numbers_from_the_first_step_to_the_files(on_device, scene, tmp_path, two_more):
    config = settings(scene, tmp_path / "run", rasterizer="tiled", deterministic=True, checkpoint_every=20)
    train(config)
    end, middle = (checkpoints.load(checkpoints.path_of(tmp_path / "run", step)) for step in (30, 20))
    assert end.splats > 300, "no splat was added"
    warmth, gain = end.buffers["warmth"], end.buffers["gain"]
    assert warmth.shape == (1, end.splats, 1) and gain.shape == (1, len(load_scene(scene).train), 2)
    assert ((warmth < FIRST["warmth"]) & (warmth > -0.5)).all() and ((gain < FIRST["gain"]) & (gain > 0)).all()  # also those of splats added on the way
    assert all(end.buffers[f"adam_{name}"].any(axis=(1, 2, 3)).all() for name in FIRST)

    train(settings(scene, tmp_path / "again", rasterizer="tiled", deterministic=True, ckpt=checkpoints.path_of(tmp_path / "run", 20)))
    assert same_state(checkpoints.load(checkpoints.path_of(tmp_path / "again", 30)), end)
    assert middle.buffers["warmth"].mean() > warmth.mean()

    for suffix in (".ply", ".npz"):
        exported = tmp_path / f"splats{suffix}"
        save_splats(exported, load_splats(tmp_path / "run" / "splats.ply"))
        np.testing.assert_array_equal(load_splats(exported).extra["warmth"], warmth)


@pytest.mark.parametrize("strategy", ["adaptive", "mcmc"])
def test_children_have_the_numbers_of_their_parents(device, scene, tmp_path, two_more, strategy):
    session = open_session(device, settings(scene, strategy=strategy, refine_start_iter=0, grow_grad2d=1e-9, cap_max=500))
    try:
        state = session.snapshot()
        state.buffers["warmth"][:] = state.buffers["means"][..., :1] * 1000  # tells whose child it is
        state.buffers["adam_warmth"][:] = 0
        session.restore(state)
        densified(session, 2)
        after = session.snapshot()
    finally:
        session.destroy()
    assert after.splats > state.splats
    first = np.sort(state.buffers["warmth"].ravel())
    assert np.median(np.diff(first)) > 2
    away = np.abs(after.buffers["warmth"][0] - first).min(axis=1)  # a step moves it by its learning rate at most
    assert away.max() < 0.2


def test_a_step_moves_the_photograph_that_it_sees(device, scene, two_more, monkeypatch):
    """With a gradient that a pass writes: here the test does, for every photograph, and only the one in the frame takes it."""
    monkeypatch.setitem(trained.QUANTITIES, "gain", Quantity("gain", "photograph", 2, Rate("quats_lr"), first=FIRST["gain"]))
    monkeypatch.delitem(LOSS_TERMS, "gain")
    session = open_session(device, settings(scene))
    try:
        views = len(session.views)
        session.parameters.write("d_gain", np.ones((1, views, 2), np.float32))
        session.run(1)
        session.drain()
        moved = session.parameters.read("gain", views)[0] != FIRST["gain"]
    finally:
        session.destroy()
    assert moved.all(axis=1).sum() == 1 and moved.any(axis=1).sum() == 1


def test_what_is_not_in_use_takes_no_memory(device):
    """SH planes above the degree of a model have no buffers."""
    low, high = (Parameters(device, 64, degree) for degree in (1, 3))
    try:
        assert low.nbytes()["shN"] * 5 == high.nbytes()["shN"]
    finally:
        low.destroy()
        high.destroy()
