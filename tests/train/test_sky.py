"""Runs with a sky: what they optimize, how they go on, and what their files show to whom."""

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.model import NAME, load_model, load_sky, save_sky
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.sky import WELL_SEEN, Sky
from hardsplat.raster.renderer import Renderer
from hardsplat.settings.train import TrainConfig
from hardsplat.train import run_training as train
from hardsplat.train.measure.command import evaluate_run
from tests.helpers.tables import refuses
from tests.helpers.training import open_session, settings

SPHERE = dict(background="sphere", rasterizer="tiled", strategy="none")


def test_a_sky_is_optimized_and_leaves_as_splats(on_device, outdoors, tmp_path, capsys):
    metrics = train(settings(outdoors, tmp_path / "run", max_steps=80, **SPHERE))
    folder, file = tmp_path / "run", tmp_path / "run" / "splats.ply"
    plain = train(settings(outdoors, tmp_path / "plain", max_steps=80, strategy="none"))
    psnr = [m["evaluations"][-1]["psnr"] for m in (metrics, plain)]
    assert psnr[0] > psnr[1] + 1, psnr
    gaussians = load_model(file)
    sky, everything = gaussians.sky, load_splats(file)
    assert len(everything) > len(gaussians) == metrics["splats"] and sky is not None
    assert 0.02 < (sky.texels[:, 3] > 0).mean() < 0.9, "texels that no camera saw count as seen"
    # our own tools draw the sky itself, others splats that show it
    own = evaluate_run(str(folder))
    assert abs(own["psnr"] - psnr[0]) < 0.01
    scene = load_scene(outdoors)
    view = scene.views[scene.train[0]].camera
    with Renderer(None, "tiled") as renderer:
        drawn, _ = renderer.forward(gaussians, view)
        shown, T = renderer.forward(everything, view)
    assert T.max() < 0.05, "there are holes in the sphere"
    assert np.abs(drawn - shown).mean() < 0.1
    # a checkpoint has it as it is
    newest = checkpoints.newest(folder)
    np.testing.assert_array_equal(load_model(newest).sky.texels, sky.texels)
    # another run begins with it, or says that it has no place for it
    more = dict(init=folder, max_steps=1)
    train(settings(outdoors, tmp_path / "on", sky_lr=0, **more, **SPHERE))
    seen = sky.texels[:, 3] > 2 * WELL_SEEN
    goes_on, _ = load_sky(tmp_path / "on" / NAME)
    np.testing.assert_array_equal(goes_on.texels[seen, :3], sky.texels[seen, :3])
    capsys.readouterr()
    train(settings(outdoors, tmp_path / "without", strategy="none", **more))
    assert "the sky of --init is left out" in capsys.readouterr().out
    # a file that was changed by others is drawn as it is
    save_splats(file, everything[: len(gaussians) - 5])
    assert load_model(file).sky is None


def test_a_checkpoint_without_a_sky_begins_one(device, outdoors):
    plain = open_session(device, settings(outdoors, strategy="none"))
    plain.run(3)
    session = open_session(device, settings(outdoors, **SPHERE))
    session.restore(plain.snapshot())
    session.run(3)
    assert session.store.gaussians().sky.texels.any()


def test_what_does_not_go_with_a_sky():
    for changes, words in (
        (dict(gradient="stochastic", strategy="mcmc"), "--gradient stochastic"),
        (dict(blocks="auto"), "--blocks"),
        (dict(mask_mode="opacity"), "--mask-mode opacity"),
    ):
        refuses(words, TrainConfig.of, background="sphere", **changes)


def test_files_that_are_no_sky(tmp_path):
    save_sky(tmp_path, Sky.of_colors(np.zeros((4, 4, 3))), 7)
    sky, splats = load_sky(tmp_path / NAME)
    assert splats == 7 and sky.side == 4
    good = (tmp_path / NAME).read_bytes()
    arrays = [np.zeros((5, 4), np.float32), np.zeros((4, 3), np.float32)]
    arrays += [np.full((4, 4), np.nan, np.float32), np.zeros((4, 4)), np.zeros(0, np.float32)]
    for texels in arrays:
        np.savez(tmp_path / NAME, sky=texels, splats=np.array(1))
        refuses("a sky", load_sky, tmp_path / NAME)
    for damaged in (good[:100], good[:-30], b"", good.replace(b"sky.npy", b"sly.npy")):
        (tmp_path / NAME).write_bytes(damaged)
        with pytest.raises(UserError):
            load_sky(tmp_path / NAME)
