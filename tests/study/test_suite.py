"""Suites of trainings: plans, their queue, and the table."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.scenes.views import View
from hardsplat.model.camera import Camera
from tests.helpers.tables import argv
from tools.suite import lane
from tools.suite.__main__ import main
from tools.suite.plan import read_plan
from tools.suite.table import markdown, matrix, rows, seconds_until

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


def result(run, psnr: float, **more) -> dict:
    last = {"ssim": 0.6, "splats": 6, "training_seconds": 3.0}
    first = {"step": 10, "psnr": psnr - 2, "ssim": 0.5, "splats": 5, "training_seconds": 1.0}
    numbers = last | {"wall_seconds": 4.0, "step_ms": 1.0, "memory_bytes": 2**20}
    numbers["evaluations"] = [first, {"step": 12, "psnr": psnr} | last]
    named = {"key": run.key, "preset": run.preset, "scene": run.scene, "seed": run.seed}
    return named | {"psnr": psnr} | numbers | more


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


MISTAKES = [
    ("[presets.plain]", "[presets.other]", "bold is based on plain, which the plan does not have"),
    ("max_steps = 12", 'base = "bold"', "which is based on it"),
    ('["far"]', '["away"]', "asks for scene away"),
    ("scale_reg", "scale_rag", "unknown setting 'scale_rag'; did you mean 'scale_reg'"),
    ("seeds = [1, 2]", "seeds = [", "not a valid TOML file"),
]


def test_plans_with_mistakes(plan):
    for old, new, message in MISTAKES:
        with pytest.raises(UserError, match=message):
            read_plan(plan(PLAN.replace(old, new)))
    assert len(read_plan(plan(PLAN.replace("[scenes.near]", "[skenes.near]"))).runs) == 3


def test_lanes_share_a_queue(plan, tmp_path):
    """No run is taken twice; one that failed is taken again."""
    runs = read_plan(plan()).runs
    out, queue = tmp_path / "out", tmp_path / "queue"
    out.mkdir()
    first, second = (lane._claimed(runs, out, queue) for _ in range(2))
    taken, claim = next(first)
    other, _ = next(second)
    assert [taken, other] == runs[:2]
    claim.write("done")
    rest = [run for run, _ in first]
    assert rest == runs[2:]
    second.close()  # its run was not done
    assert [run for run, _ in lane._claimed(runs, out, queue)] == runs[1:]
    lines = [result(runs[2], 20.0), result(runs[3], 20.0, error="no")]
    text = "\n".join([*map(json.dumps, lines), '{"cut sho'])
    (out / "results_0.jsonl").write_text(text)
    left = [run for run, _ in lane._claimed(runs, out, tmp_path / "another")]
    assert left == [runs[0], runs[1], runs[3], runs[4]]


def test_the_table(plan, tmp_path, capsys):
    runs = read_plan(plan()).runs
    out = tmp_path / "out"
    out.mkdir()
    assert main(["table", str(plan()), "--out", str(out)]) == 1
    assert "no results yet" in capsys.readouterr().err
    lines = [result(run, psnr) for run, psnr in zip(runs, (20.0, 22.0, 22.0, 24.0, 25.0))]
    written = [*lines, result(runs[0], 0.0, error="no")]
    (out / "results_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    table = rows(lines, {"near": 21.0})
    found = [tuple(r[k] for k in "scene preset psnr psnr_spread seeds".split()) for r in table]
    wanted = [("near", "plain", 21.0, 1.0, 2), ("far", "plain", 23.0, 1.0, 2)]
    assert found == [*wanted, ("far", "bold", 25.0, 0.0, 1)]
    assert table[0]["until_s"] is None  # one of the seeds never reaches it
    assert "| far | bold | 1 | 25.00 | 0.6000 | 0 k | 3.0 | 4.0 |  |" in markdown(table)
    assert "| bold |  | +2.00 (3.0 s) | +2.000 |" in matrix(table, "plain")
    assert main(["table", str(plan()), "--out", str(out), "--against", "plain"]) == 0
    assert (out / "table.csv").read_text().count("\n") == 4 and "+2.000" in capsys.readouterr().out
    assert main(["plot", str(plan()), "--out", str(out)]) == 0
    for name in ("seconds", "splats"):
        assert (out / f"quality_{name}.png").stat().st_size > 10_000


def test_seconds_until():
    at = ((20.0, 1.0), (22.0, 2.0), (21.0, 3.0))
    measured = [{"psnr": psnr, "training_seconds": seconds} for psnr, seconds in at]
    assert [seconds_until(measured, psnr) for psnr in (21.0, 19.0, 23.0)] == [1.5, 1.0, None]


def test_photographs_stay_as_they_are_read(tmp_path):
    seen = np.random.default_rng(5).integers(0, 256, (16, 20, 4), np.uint8)
    Image.fromarray(seen).save(tmp_path / "sheer.png")
    camera, none = Camera(np.eye(4), np.eye(3), 20, 16), np.zeros((0, 3))
    view = View("sheer", camera, tmp_path / "sheer.png", number=3)
    kept = lane.in_memory(Scene("one", [view], none, none, [0], [], 1.0)).views[0]
    assert np.array_equal(kept.load(), view.load()) and kept.number == 3
    assert kept.load().shape == (16, 20, 4)


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
