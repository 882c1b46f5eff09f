"""`hardsplat bench`: a row a variant, every pass in a stage, errors that tell formats apart, bad input in one line."""

import json

import numpy as np
import pytest

from app.cli import main
from app.gaussians import Gaussians
from app.io.ply import save_ply
from app.io.scene import load_scene
from app.io.splats import load_splats
from app.study.bench import STAGES, bench, stage_of, views_of


@pytest.fixture(scope="module")
def model(scene, tmp_path_factory):
    loaded = load_scene(scene)
    path = tmp_path_factory.mktemp("bench") / "splats.ply"
    save_ply(path, Gaussians.from_points(loaded.points, loaded.colors, sh_degree=1, opacity=0.5))
    return path


@pytest.mark.parametrize("upstream", ["random", "loss"])
def test_rows_stages_and_files(on_device, scene, model, tmp_path, upstream):
    rows = bench(model, scene, tmp_path, views=[1], upstream=upstream, repeats=1, errors=True, quiet=True, format=["float32", "unorm8"], block=["1x1"])
    assert [r.options["format"] for r in rows] == ["float32", "unorm8"]
    for row in rows:
        assert set(row.stages) == set(STAGES) and (row.stages["loss"] > 0) == (upstream == "loss")
        assert row.total == pytest.approx(row.forward + row.backward) and row.visible > 0 and all(n > 0 for n in row.fragments.values())
    assert max(rows[0].errors.values()) < 1e-4 < max(rows[1].errors.values())
    assert len(json.loads((tmp_path / "bench.json").read_text())["rows"]) == 2
    assert "unorm8" in (tmp_path / "bench.md").read_text()


def test_every_pass_has_its_stage():
    names = {"sizes": "project", "project": "project", "project backward": "project backward", "sort scatter 3": "sort", "tile sort count 0": "tiles", "draw": "forward draw"}
    names |= {"begin forward": "forward draw", "draw backward": "backward draw", "begin backward": "backward draw", "loss ssim": "loss", "more": "other"}
    assert {name: stage_of(name) for name in names} == names


def test_views(scene):
    loaded = load_scene(scene)
    assert views_of(loaded, []) == list(range(8)) and views_of(loaded, [2]) == [2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--views", "99"], "--views 99: the scene has 9 views, 0 to 8"),
        (["--format", "nosuch"], "--format: expected one of unorm8, unorm16, float16, float32, got 'nosuch'"),
    ],
)
def test_bad_input(on_device, scene, model, capsys, flags, message):
    assert main(["bench", str(model), "--data-dir", str(scene), *flags]) == 2
    assert capsys.readouterr().err == f"hardsplat: error: {message}\n"


def test_npz(tmp_path, capsys):
    path, n = tmp_path / "splats.npz", 5
    arrays = dict(means=np.ones((n, 3)), quats=np.ones((n, 4)), opacities=np.zeros(n), scales=np.zeros((n, 3)), sh0=np.ones((n, 1, 3)))
    np.savez(path, **arrays, shN_i8=np.full((n, 3, 3), 64, np.int8))
    splats = load_splats(path)
    assert splats.sh_degree == 1 and np.allclose(splats.opacities, 0.5) and np.allclose(splats.scales, 1) and np.allclose(splats.sh[:, 1:], 0.5)
    np.savez(path, means=arrays["means"])
    assert main(["bench", str(path), "--data-dir", str(tmp_path)]) == 2
    assert "no array quats" in capsys.readouterr().err
