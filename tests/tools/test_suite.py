"""Suites of trainings: plans, their queue, and the table."""

from pathlib import Path

import pytest

from tests.helpers.tables import argv
from tools.suite import lane
from tools.suite.__main__ import main
from tools.suite.plan import read_plan

PLAN = """
seeds = [1, 2]
[scenes.near]
target = 21.0
anchors = { other = [[10, 20.0], [20, 21.5]] }
[scenes.far]
settings = { background = "white" }
[presets.plain]
max_steps = 12
eval_steps = [10]
[presets.bold]
base = "plain"
scenes = ["far"]
seeds = [7]
scale_reg = 0.5
of.far = { cap_max = 700 }
"""


@pytest.fixture
def plan(tmp_path):
    def write(text: str = PLAN) -> Path:
        (tmp_path / "plan.toml").write_text(text)
        return tmp_path / "plan.toml"

    return write


def test_a_plan_is_read(plan):
    found = read_plan(plan())
    plain = [("plain", s, n) for n in (1, 2) for s in ("near", "far")]  # seed by seed
    assert [(r.preset, r.scene, r.seed) for r in found.runs] == [*plain, ("bold", "far", 7)]
    config = found.runs[-1].settings(Path("data/far"), Path("out"))
    assert (config.run.max_steps, config.loss.scale_reg, config.densify.cap_max) == (12, 0.5, 700)
    assert (config.scene.background, config.run.seed, config.run.save_steps) == ("white", 7, ())
    assert found.targets == {"near": 21.0}
    assert found.anchors["near"][0].points == ((10.0, 20.0), (20.0, 21.5))
    assert len({r.key for r in found.runs}) == 5


SHORT = """
[scenes.tiny]
folder = "{}"
[presets.short]
max_steps = 12
eval_steps = [10]
rasterizer = "hardware"
[presets.wrong]
base = "short"
deterministic = true
"""


def test_a_lane_trains(on_device, plan, scene, tmp_path, monkeypatch):
    monkeypatch.setattr("tools.suite.lane.open_device", lambda wanted: on_device)
    text, out = SHORT.format(scene.name), tmp_path / "out"
    assert main(argv("train", plan(text), "--data", scene.parent, "--out", out)) == 0
    done, failed = lane.results(out)
    assert [e["step"] for e in done["evaluations"]] == [10, 12] and done["steps"] == 12
    assert done["psnr"] > 5
    assert failed["error"].startswith("--deterministic takes --rasterizer tiled")
    # What failed is tried again, what is done is not.
    assert lane.work(read_plan(plan(text)), scene.parent, out, out / "queue", 0, 1.0) == 1
