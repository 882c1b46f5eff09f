"""The gradient study measures, reports and refuses."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat.io.splats import save_splats
from hardsplat.model.gaussians import Gaussians
from tools import gradient_study
from tools.gradient_report import CLASSES, report


@pytest.fixture
def flags(device, monkeypatch, tmp_path):
    monkeypatch.setattr(gradient_study, "open_device", lambda wanted: device)
    rows = dict(format=["unorm16", "float32"], state_format=["float16"], blending=["fixed"])
    return SimpleNamespace(device=None, quiet=True, result_dir=tmp_path, block=["2x2"], **rows)


def splats():
    rng, n = np.random.default_rng(0), 60
    means, quats = rng.uniform(-1, 1, (n, 3)), rng.normal(0, 1, (n, 4))
    scales, opacities = rng.uniform(0.1, 0.4, (n, 3)), rng.uniform(0.2, 0.9, n)
    return Gaussians(means, quats, scales, opacities, rng.normal(0.3, 0.5, (n, 4, 3)))


def test_oracle_and_report(flags, tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_study, "DEPTHS", {"4 deep": (4, (0.1, 0.9))})
    flags.scenes = 1
    result = gradient_study.oracle(flags)
    found = [(r["format"], r["range"]) for r in result["rows"]]
    assert found == [("unorm16", 1.0), ("float32", 1.0), ("unorm16", 4.0)]
    for row in result["rows"]:
        assert set(row["l2"]) == set(CLASSES) and max(row["l2"].values()) < 5e-3
        assert min(row["cosine"].values()) > 0.9999
    errors = result["emulated"]["4 deep"]
    order = "unorm16, nearest", "float16, nearest", "float16, towards zero", "unorm8, nearest"
    values = [errors[name]["means"] for name in order]
    assert all(a < b for a, b in itertools.pairwise(values)), values
    (tmp_path / "oracle.json").write_text(json.dumps(result))
    assert "| unorm16 of 0..4 | float16 | fixed | 2x2 |" in report(tmp_path)
    assert (tmp_path / "gradients_oracle.png").stat().st_size > 10_000


def test_model(flags, scene, tmp_path):
    save_splats(tmp_path / "splats.ply", splats())
    flags.model, flags.data_dir = str(tmp_path / "splats.ply"), str(scene)
    flags.views, flags.upstream = 2, ["random", "loss"]
    rows = gradient_study.model(flags)["rows"]
    assert {row["case"] for row in rows} == {"random", "loss"}
    exact = [row for row in rows if row["format"] == "float32"]
    assert all(0 < error < 5e-3 for row in exact for error in row["l2"].values())
