"""Suites of trainings: their plans can be read, and their tables say what came of the runs."""

from pathlib import Path

import pytest

from tools.suite.__main__ import main
from tools.suite.lane import results
from tools.suite.plan import read_plan
from tools.suite.table import decisions, markdown, rows

ROOT = Path(__file__).parents[2]
PLANS = sorted((ROOT / "tools/suite").glob("*.toml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plans_hold_settings_that_go_together(path, tmp_path):
    plan = read_plan(path)
    assert len({run.key for run in plan.runs}) == len(plan.runs)
    for run in plan.runs:
        assert run.settings(tmp_path, tmp_path).run.seed == run.seed


def run_of(seed: int, psnr: float, best: float, steps: int) -> dict:
    numbers = {"scene": "court", "preset": "default", "seed": seed, "psnr": psnr, "ssim": 0.9}
    numbers |= {"fitted_psnr": psnr + 1, "best": best, "steps": steps, "splats": 2_000}
    numbers |= {"training_seconds": 2.0, "wall_seconds": 3.0, "step_ms": 1.0}
    numbers |= {"memory_bytes": 2**20, "evaluations": [], "decisions": [f"of seed {seed}"]}
    return numbers


def test_the_table_has_means_spreads_and_what_a_run_lost():
    runs = [run_of(1, 20.0, 20.0, 100), run_of(2, 21.0, 21.25, 300)]
    (row,) = rows(runs, {})
    assert (row["psnr"], row["psnr_spread"], row["fitted_psnr"]) == (20.5, 0.5, 21.5)
    assert (row["below_best"], row["steps"]) == (0.25, 200)
    line = "| court | default | 2 | 20.50 ± 0.50 | 21.50 | 0.9000 ± 0.0000 | 0.25 | 200 | 2 k |"
    head, rule, first = markdown([row]).splitlines()
    assert first.startswith(line) and head.count("|") == rule.count("|") == first.count("|")
    assert decisions(runs) == "default, court: of seed 1\n"


def test_a_plan_runs_in_small(on_device, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[scenes.courtyard]\n[scenes.third]\nfolder = 'courtyard'\nevery = 3\naltered = true\n"
        "[presets.default]\nexposure = 'affine'\nrasterizer = 'tiled'\nbatch_steps = 5\n"
    )
    where = ["--out", str(tmp_path / "out")]
    how = ["--data", str(ROOT / "scenes"), "--factor", "8", "--steps", "10", *where]
    assert main(["train", str(plan), *how]) == 0
    assert main(["table", str(plan), "--decisions", *where]) == 0
    said, found = capsys.readouterr().out, results(tmp_path / "out")
    assert [r["steps"] for r in found] == [10, 10]
    assert "| courtyard | default | 1 |" in said and "| third | default | 1 |" in said
    assert "default, courtyard: 35 training photographs: at most 20000 splats" in said
    assert "default, third: 12 training photographs: at most 20000 splats" in said
    assert found[0]["fitted_psnr"] > 5
