"""The gradient study measures, reports and refuses."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.io.ply import save_ply
from hardsplat.model.gaussians import Gaussians
from tools import gradient_study
from tools.gradient_report import CLASSES, report


@pytest.fixture
def flags(device, monkeypatch, tmp_path):
    monkeypatch.setattr(gradient_study, "open_device", lambda wanted: device)
    return SimpleNamespace(
        device=None,
        quiet=True,
        result_dir=tmp_path,
        format=["unorm16", "float32"],
        state_format=["float16"],
        blending=["fixed"],
        block=["2x2"],
    )


def splats():
    rng = np.random.default_rng(0)
    n = 60
    return Gaussians(
        rng.uniform(-1, 1, (n, 3)),
        rng.normal(0, 1, (n, 4)),
        rng.uniform(0.1, 0.4, (n, 3)),
        rng.uniform(0.2, 0.9, n),
        rng.normal(0.3, 0.5, (n, 4, 3)),
    )


def test_dimmed_splats_have_dimmed_colours():
    rng = np.random.default_rng(1)
    gaussians, basis = splats(), np.array([gradient_study.SH0, *rng.normal(0, 1, 3)])
    color = np.einsum("k,nkc->nc", basis, gaussians.sh.astype(np.float64)) + 0.5
    assert np.allclose(
        np.einsum("k,nkc->nc", basis, gradient_study.dimmed(gaussians, 4.0).sh.astype(np.float64))
        + 0.5,
        color / 4,
        atol=1e-6,
    )


def test_oracle_and_report(flags, tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_study, "DEPTHS", {"4 deep": (4, (0.1, 0.9))})
    flags.scenes = 1
    result = gradient_study.oracle(flags)
    assert [(r["format"], r["range"]) for r in result["rows"]] == [
        ("unorm16", 1.0),
        ("float32", 1.0),
        ("unorm16", 4.0),
    ]
    for row in result["rows"]:
        assert (
            set(row["l2"]) == set(CLASSES)
            and max(row["l2"].values()) < 5e-3
            and min(row["cosine"].values()) > 0.9999
        )
    errors = result["emulated"]["4 deep"]
    assert (
        errors["unorm16, nearest"]["means"]
        < errors["float16, nearest"]["means"]
        < errors["float16, towards zero"]["means"]
        < errors["unorm8, nearest"]["means"]
    )
    (tmp_path / "oracle.json").write_text(json.dumps(result))
    assert "| unorm16 of 0..4 | float16 | fixed | 2x2 |" in report(tmp_path)
    assert (tmp_path / "gradients_oracle.png").stat().st_size > 10_000


def test_model(flags, scene, tmp_path):
    save_ply(tmp_path / "splats.ply", splats())
    flags.model, flags.data_dir, flags.views, flags.upstream = (
        str(tmp_path / "splats.ply"),
        str(scene),
        2,
        ["random", "loss"],
    )
    rows = gradient_study.model(flags)["rows"]
    assert {row["case"] for row in rows} == {"random", "loss"}
    assert all(
        0 < error < 5e-3
        for row in rows
        if row["format"] == "float32"
        for error in row["l2"].values()
    )


def test_nothing_to_report(tmp_path):
    with pytest.raises(UserError, match="nothing to report; run oracle"):
        report(tmp_path)
    command = [
        sys.executable,
        "-m",
        "tools.gradient_study",
        "model",
        "none.ply",
        "--data-dir",
        str(tmp_path),
        "--views",
        "0",
        "--result-dir",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (
        done.returncode == 1
        and done.stderr.strip() == "gradient_study: error: --views 0: at least 1"
    )
