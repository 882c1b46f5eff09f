"""Training with lobes of colour: the same bits again, files, exports, and what is refused."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.export.contribution import SeenSplats
from hardsplat.export.convert import convert
from hardsplat.export.harmonics import likeness
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_plain, load_splats
from hardsplat.model.gaussians import SH_C0
from hardsplat.model.lobes import without_lobes
from hardsplat.settings.presets import load_config
from hardsplat.train.run.trainer import train
from tests.helpers.training import densified, open_session, same_state, settings


def test_a_run_goes_on_and_its_files_carry_lobes(on_device, scene, tmp_path, capsys):
    way = dict(color="lobes", rasterizer="tiled", deterministic=True)
    train(settings(scene, tmp_path / "run", checkpoint_every=20, **way))
    end, middle = (
        checkpoints.load(checkpoints.path_of(tmp_path / "run", step)) for step in (30, 20)
    )
    assert end.splats > 300 and end.sh_degree == 0
    for name in ("lobe_colors", "lobe_axes"):
        assert end.buffers[name].shape == (2, end.splats, 3)
        assert middle.buffers[name].std(axis=1).min() > 0, "no splat learnt its own"
        assert end.buffers[f"adam_{name}"].any()
    again = settings(
        scene, tmp_path / "again", ckpt=checkpoints.path_of(tmp_path / "run", 20), **way
    )
    train(again)
    assert same_state(checkpoints.load(checkpoints.path_of(tmp_path / "again", 30)), end)
    splats = load_splats(tmp_path / "run" / "splats.ply")
    np.testing.assert_array_equal(splats.extra["lobe_axes"], end.buffers["lobe_axes"])
    np.testing.assert_array_equal(splats.sh[:, 0], end.buffers["sh0"][0])
    draws_alike(tmp_path / "run" / "splats.ply", splats, load_scene(scene), on_device)
    capsys.readouterr()
    for name in ("x.npz", "x.ply", "x.spz"):
        convert(tmp_path / "run", tmp_path / name, quiet=True)
    convert(tmp_path / "run", tmp_path / "whole.ply", sh_degree=3, quiet=True)
    said = capsys.readouterr().out
    assert said.count("lobes of colour became spherical harmonics of degree 3") == 2
    assert said.count("lobes of colour have beside them spherical harmonics") == 1
    both, whole = (load_splats(tmp_path / name) for name in ("x.ply", "whole.ply"))
    assert load_splats(tmp_path / "x.npz").extra.keys() == both.extra.keys() == splats.extra.keys()
    np.testing.assert_array_equal(load_plain(tmp_path / "x.ply").sh, whole.sh)
    assert whole.sh_degree == 3 and not whole.extra
    # lower degrees are fits of their own: no bands of a higher one without the rest of it
    convert(tmp_path / "run", tmp_path / "flat.ply", sh_degree=0, quiet=True)
    convert(tmp_path / "run", tmp_path / "flat.splat", quiet=True)
    flat, lossy = (load_splats(tmp_path / name) for name in ("flat.ply", "flat.splat"))
    assert np.abs(flat.sh[:, 0] - whole.sh[:, 0]).max() > 0.02
    colors, wanted = (g.sh[:, 0] * SH_C0 + 0.5 for g in (lossy, flat))
    np.testing.assert_allclose(colors, np.clip(wanted, 0, 1), atol=0.51 / 255)
    with pytest.raises(UserError, match="made with --color lobes, this run has sh"):
        ckpt = checkpoints.path_of(tmp_path / "run", 20)
        train(settings(scene, tmp_path / "other", ckpt=ckpt))


def draws_alike(path, splats, scene, device) -> None:
    """The SH of a file draw training views nearly as the lobes do, and nearer than the base colour
    alone. They are those that numpy fits."""
    cameras = [scene.views[i].camera for i in scene.train]
    plain = load_plain(path)
    near = np.abs(plain.sh - without_lobes(splats, cameras).sh).max(axis=(1, 2)) < 2e-3
    assert near.mean() > 0.98  # the device may see a mean on the other side of a border
    base = replace(splats, extra={})
    shown = SeenSplats(splats, cameras, device=device)
    assert likeness(shown, plain) > 75 and likeness(shown, base) < 50  # 86 and 43 dB


def test_children_have_the_lobes_of_their_parents(device, scene, monkeypatch):
    session = open_session(device, settings(scene, color="lobes", grow_grad2d=1e-9, cap_max=500))
    state = session.snapshot()
    state.buffers["lobe_axes"][:] = state.buffers["means"][..., :1] * 1000
    session.restore(state)
    densified(session, 2)
    after = session.snapshot()
    assert after.splats > state.splats
    axes = after.buffers["lobe_axes"][1, :, 2]
    first = state.buffers["lobe_axes"][1, :, 2]
    assert np.median(np.diff(np.sort(first))) > 2
    # a step moves them by their learning rate at most
    assert np.abs(axes[:, None] - first).min(axis=1).max() < 0.2
    # without memory on the device numpy fits harmonics of the same splats
    fitted = session.harmonics()
    nowhere = Mock(side_effect=OutOfMemory("full"))
    monkeypatch.setattr("hardsplat.train.session.contents.fit_harmonics", nowhere)
    near = np.abs(session.harmonics() - fitted).max(axis=(1, 2)) < 2e-3
    assert fitted.shape == (after.splats, 16, 3) and near.mean() > 0.98


@pytest.mark.parametrize(
    "flags, words",
    [
        (dict(color="lobes", sh_degree=2), "--sh-degree belongs to --color sh"),
        (dict(color="sh", lobes_lr=0.1), "--lobes-lr belongs to --color lobes"),
        (dict(shN_lr=0.1, lobes_lr=0.1), "--shN-lr belongs to --color sh; this run has lobes"),
        (dict(color="lobes", blocks="2x1"), "--color lobes does not go with --blocks"),
        (
            dict(color="lobes", gradient="stochastic", strategy="none"),
            "--color lobes does not go with --gradient stochastic",
        ),
    ],
)
def test_what_does_not_go_with_lobes(flags, words):
    with pytest.raises(UserError, match=words):
        load_config(None, flags)
