"""`hardsplat sweep`: its runs, plans, records, failures, tables, page, workers, bad input."""

import csv
import json
import re
from pathlib import Path

import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.io.scenes.scene import load_scene
from hardsplat.report import charts
from hardsplat.study.sweep import one_run, runs
from hardsplat.study.sweep.page import plots, quality_time
from hardsplat.study.sweep.plan import Arm, SweepJob, plan, read_plan
from hardsplat.study.sweep.sweep import sweep
from hardsplat.study.sweep.tables import Point
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.gradients import REDUCTIONS
from tests.helpers import needs
from tests.helpers.browser import open_page, parts
from tests.helpers.sweeping import in_this_process
from tests.helpers.tables import argv, refusal

PLANS = sorted((Path(__file__).parents[2] / "docs/results").glob("*.toml"))
FEW = "--max-steps 2 --sh-degree 0 --strategy none --block 1x1 --quiet"


def hardsplat_sweep(*words) -> int:
    return main(["sweep", *argv(*words)])


def few(scene, **settings) -> dict:
    return {"data_dir": scene, **settings}


@pytest.fixture
def in_process(on_device, monkeypatch):
    """Runs are made in this process. Returns the folders of those made."""
    return in_this_process(monkeypatch)


def records(folder) -> dict[str, dict]:
    found = (folder / "runs").glob("*/run.json")
    return {path.parent.name.rsplit("-", 1)[0]: json.loads(path.read_text()) for path in found}


def test_every_combination_once(scene):
    axes = {"format": ["unorm8", "float16"], "reduction": ["quad", "atomic"], "seed": [1, 2]}
    jobs = plan([Arm(None, few(scene, max_steps=8), axes)])
    assert len(jobs) == 8 == len({j.id for j in jobs}) == len({j.name for j in jobs})
    assert jobs[1].varied == {"format": "unorm8", "reduction": "quad", "seed": 2}
    assert jobs[1].name == f"format-unorm8_reduction-quad_seed-2-{jobs[1].id}"
    settings = jobs[0].settings
    assert settings["eval_steps"] == [2, 4, 6] and settings["save_steps"] == []
    assert "result_dir" not in settings and json.loads(json.dumps(settings)) == settings
    # a near plane that is named stays, another follows the scene
    near = [few(scene), few(scene, near_plane=0.01)]
    assert len({job.id for own in near for job in plan([Arm(None, own, {})])}) == 2
    (asked,) = plan([Arm(None, few(scene, eval_steps=(3,), save_steps=(5,)), {})])
    assert (asked.settings["eval_steps"], asked.settings["save_steps"]) == ([3], [5])


SCRIPT = """
  const choice = document.querySelector("select"), options = choice.options;
  choice.value = options[2].value; choice.dispatchEvent(new Event("change"));
  const same = document.querySelector(".pair img").src
    === document.getElementById(options[2].value).src;
  document.body.dataset.chosen = same + " " + document.querySelector(".ends span").textContent;
"""


def test_a_sweep_from_flags_to_page(
    in_process, reports, device, scene, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("hardsplat.study.sweep.page.plots", plots)
    lacking, out = "quad", tmp_path / "out"
    less = device.capabilities.names - {*REDUCTIONS[lacking].needs}
    monkeypatch.setattr(device.capabilities, "names", less)
    axes = f"--format unorm8 float32 --reduction atomic {lacking} --result-dir"
    command = argv(scene, FEW, axes, out)
    assert hardsplat_sweep(*command) == 0
    said, found = capsys.readouterr().out, records(out)
    why = found[f"format-float32_reduction-{lacking}"]["error"]
    assert "4 runs: 0 done before, 4 to do" in said and " lacks " in why
    assert f"[4/4] format float32, reduction {lacking}: skipped: {why}\n" in said
    assert sorted(r["status"] for r in found.values()) == ["done", "done", "skipped", "skipped"]
    record = found["format-unorm8_reduction-atomic"]
    metrics = record["metrics"]
    assert list(record) == list(runs.KEYS) and metrics["steps"] == 2
    assert metrics["variants"]["format"] == "unorm8"
    assert metrics["variants"]["blending"] == "fixed"  # of lists formats are much the same
    assert not list(out.glob("runs/*/ckpts"))

    text = (out / "sweep.md").read_text()
    assert "| format  | reduction | PSNR [dB] |   SSIM |" in text
    assert text.count(f"skipped: {why}") == 2
    assert "| format  | reduction | PSNR [dB] |   SSIM |" in said
    assert "## Results" in text and "## Not done" in text
    with open(out / "sweep.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 4 and sum(r["status"] == "done" for r in table) == 2
    row = next(r for r in table if (r["format"], r["reduction"]) == ("unorm8", "atomic"))
    assert float(row["psnr"]) == metrics["evaluations"][-1]["psnr"]
    assert float(row["ms backward draw"]) > 0 < float(row["bytes parameters"])
    assert row["device"] == metrics["device"]["name"]

    page = out / "report.html"
    pictures, drawn = parts(page)
    # Two views: slider's two, photograph, and render and difference of two formats.
    assert len(pictures) == 2 * (1 + 1 + 1 + 2 * 2)
    (svg,) = drawn
    assert "PSNR of held-out views [dB]" in svg
    links = re.findall(r'href="([^"]*)"', page.read_text())
    assert all((out / link).is_file() for link in links)
    (tmp_path / "first.html").write_text(page.read_text())

    # The same again: what is done is not, what is half done and what the device lacked are.
    monkeypatch.setattr("hardsplat.study.sweep.page.plots", lambda records: [])
    in_process.clear()
    half = next(out.glob("runs/format-unorm8_reduction-atomic*"))
    (half / "run.json").write_text((half / "run.json").read_text()[:-20])
    (half / "splats.ply").write_text("half")
    assert hardsplat_sweep(*(w if w != lacking else "atomic" for w in command)) == 0
    assert in_process == [half] and "2 runs: 1 done before, 1 to do" in capsys.readouterr().out
    assert records(out)["format-unorm8_reduction-atomic"]["status"] == "done"
    assert not (half / "earlier_1").exists()
    dom, shot = open_page(tmp_path / "first.html", tmp_path, SCRIPT)
    assert "broken 0 of 15, wide false" in dom and 'data-chosen="true float32 atomic"' in dom
    assert len(shot.getcolors(1 << 24)) > 20


def test_records_of_older_versions(tmp_path):
    """They do not say which settings were named."""
    old = runs.new(SweepJob("id", "name", {}, {"seed": 1}, ["seed"]))
    assert runs.read(tmp_path) is None
    runs.write(tmp_path, old)
    assert runs.read(tmp_path) == old
    del old["named"]
    runs.write(tmp_path, old)
    assert runs.read(tmp_path) == old | {"named": []}
    for text in "[]", '{"schema": 2}', "{":
        (tmp_path / runs.NAME).write_text(text)
        assert runs.read(tmp_path) is None


def test_seeds_are_one_line_with_bars():
    def run(*evaluations):
        names = "training_seconds", "psnr"
        return {"metrics": {"evaluations": [dict(zip(names, each)) for each in evaluations]}}

    seeds = [run((1, 20), (2, 24)), run((3, 26)), run((2, 22), (4, 28))]
    axes = charts.figure(4, 3).subplots()
    assert quality_time(axes, [Point("a", {}, seeds), Point("b", {}, [run((1, 10), (2, 11))])])
    first, second = axes.containers
    assert first.lines[0].get_xydata().tolist() == [[3, 26]] and first.has_yerr
    (bar,) = first.lines[2][0].get_segments()
    assert bar.tolist() == [[3, 24], [3, 28]]
    assert second.lines[0].get_xydata().tolist() == [[1, 10], [2, 11]] and not second.has_yerr
    axes = charts.figure(4, 3).subplots()
    tie = [Point("a", {}, [run((9, 24.321))]), Point("b", {}, [run((10, 24.322))])]
    assert quality_time(axes, tie)
    low, high = axes.get_ylim()
    assert low < 24.321 < 24.322 < high and high - low > 0.49 and axes.get_xlim()[0] == 0


def test_failures_stay_with_their_run(in_process, scene, tmp_path, monkeypatch, capsys):
    real, typed = one_run.run_training, []

    def fails(config):
        typed.append(config.typed)
        if config.run.seed == 1:
            raise UserError("no memory at step 1")
        if config.run.seed == 2:
            raise ZeroDivisionError("a bug")
        return real(config)

    monkeypatch.setattr(one_run, "run_training", fails)
    command = argv(scene, "--seed 1 2 3", FEW, "--result-dir", tmp_path)
    assert hardsplat_sweep(*command) == 1
    assert all({"seed", "max_steps"} <= names for names in typed)
    errors = {r["settings"].get("seed"): r["error"] for r in records(tmp_path).values()}
    assert errors == {1: "no memory at step 1", 2: "ZeroDivisionError: a bug", 3: None}
    statuses = sorted(r["status"] for r in records(tmp_path).values())
    assert statuses == ["done", "failed", "failed"]
    assert "\n- seed=1: failed: no memory at step 1" in capsys.readouterr().out
    monkeypatch.setattr(one_run, "run_training", real)
    in_process.clear()
    assert hardsplat_sweep(*command) == 0 and len(in_process) == 2  # those that failed
    monkeypatch.setattr(one_run, "run_training", fails)
    words = "--seed 1 --format unorm8 --result-dir"
    assert hardsplat_sweep(scene, FEW, words, tmp_path / "other") == 2
    error = "none of the 1 runs was done; the last: no memory at step 1"
    assert error in capsys.readouterr().err


PLAN = """
sh_degree = 0
max_steps = 2
[scenes.near]
data_dir = "SCENE"
[scenes.far]
data_dir = "SCENE"
data_factor = 2
[presets.default]
seed = [1, 2]
[presets.grown]
config = "adaptive"
scenes = ["near"]
"""


def test_a_plan_trains_presets_on_scenes(in_process, scene, tmp_path, capsys):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("SCENE", str(scene)))
    command = argv(path, "--rasterizer tiled --max-steps 3 --quiet --result-dir", tmp_path / "out")
    assert hardsplat_sweep(*command) == 0
    found, said = records(tmp_path / "out"), capsys.readouterr().out
    named = {f"scene-{s}_preset-default_seed-{n}" for s in ("near", "far") for n in (1, 2)}
    assert found.keys() == named | {"scene-near_preset-grown"}
    assert {r["metrics"]["steps"] for r in found.values()} == {3}  # flags win
    grown = found["scene-near_preset-grown"]["settings"]
    assert (grown["strategy"], grown["data_factor"]) == ("adaptive", 1)
    assert grown["sh_degree"] == 0
    text = (tmp_path / "out/sweep.md").read_text()
    assert text.startswith("# Sweep of near, far\n")
    assert re.search(r"\| scene \| preset  \| seeds \| +PSNR \[dB\] \| +SSIM \|", text)
    assert re.search(r"\| run     \| +near \| +far \| +mean \|", text)
    assert "- near default: 7 training photographs: at most 20,000 splats" in text
    (last,) = (l for l in said.splitlines() if re.match(r"\| grown +\| +[0-9.]+ \| +- ", l))
    psnr = found["scene-near_preset-grown"]["metrics"]["evaluations"][-1]["psnr"]
    assert last.split()[3] == f"{psnr:.2f}"
    page = (tmp_path / "out/report.html").read_text()
    assert "near: view_0000.jpg" in page and "far: view_0000.jpg" in page


A = "[scenes.a]\ndata_dir = 'a'\n"
BAD_PLANS = {
    "seed = 1": "a plan has scenes, each as [scenes.NAME]",
    "scenes = ['a']\n[presets.b]": "a plan has scenes, each as [scenes.NAME]",
    A + "[presets]\nb = 3": "a plan has presets, each as [presets.NAME]",
    "[scenes.a]\n[presets.b]": "scenes.a: data_dir, its folder, is missing",
    A + "evry = 3\n[presets.b]": "scenes.a.evry: there is no such setting",
    A + "every = 0\n[presets.b]": "scenes.a: every is a whole number",
    A + "[presets.b]\nscenes = ['c']": "presets.b: there is no scene c",
    A + "[presets.b]\nseed = [1, 'x']": "presets.b.seed: expected a whole number",
    A + "[presets.b]\nseed = []": "there is nothing to train",
    A + "[presets.b]\n[presets.c]": "b on a and c on a are one run",
    A + "[presets.b]\nscenes = 'a'": "presets.b: config is a name or a file, and scenes are a list",
    A + "[presets.b]\nconfig = 3": "presets.b: config is a name or a file, and scenes are a list",
    A + "[presets.b]\nscenes = [['a']]": "presets.b: there is no scene ['a']",
    A + "[presets.'b/c']": "presets.'b/c': files are named so",
    "device = 1\n" + A + "[presets.b]": "device: not here, since it is the command's",
    "data_dir = 'a'\n" + A + "[presets.b]": "data_dir: not here, since it is a scene's",
}


@pytest.mark.parametrize("text, words", BAD_PLANS.items())
def test_bad_plans(tmp_path, text, words):
    (tmp_path / "plan.toml").write_text(text)
    arm = Arm(None, {}, {})
    assert words in refusal(lambda: plan(read_plan(tmp_path / "plan.toml", arm)))


def test_every_third_training_photograph(scene, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(f"[scenes.a]\ndata_dir = '{scene}'\nevery = 3\n[presets.b]")
    (job,) = plan(read_plan(path, Arm(None, {}, {})))
    left = load_scene(scene, exclude=job.settings["exclude"])
    names = [left.views[i].name for i in left.train]
    assert names == [f"view_{i:04d}.jpg" for i in (1, 4, 7)] and len(left.test) == 2


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plans_of_the_documents_hold_settings_that_go_together(path):
    jobs = plan(read_plan(path, Arm(None, {}, {})))
    assert len({job.name for job in jobs}) == len(jobs) > 3


def test_what_children_save_is_in_the_tables_of_an_interrupted_sweep(scene, tmp_path, monkeypatch):
    """Ctrl-C may come while the line of a run that ended is written, and others are made."""

    def workers(work, tasks, *given):
        try:
            yield 0, runs.new(tasks[0][1]) | {"status": "failed", "error": "x"}
        finally:
            tasks[1][0].mkdir()
            runs.write(tasks[1][0], runs.new(tasks[1][1]) | {"status": "interrupted"})

    def interrupted(record):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "on_workers", workers)
    monkeypatch.setattr("hardsplat.study.sweep.sweep.line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep([Arm(None, few(scene), {"seed": [1, 2]})], tmp_path)
    assert "- seed=1: failed: x\n- seed=2: interrupted" in (tmp_path / "sweep.md").read_text()


def test_two_devices_of_this_machine(scene, tmp_path, capsys):
    axes = "--reduction atomic quad --device 0 0 --result-dir"
    assert hardsplat_sweep(*argv(scene, FEW, axes, tmp_path)) == 0
    found = records(tmp_path)
    assert len(found) == 2 and found["reduction-atomic"]["metrics"]["steps"] == 2
    assert {r["status"] for r in found.values()} <= {"done", "skipped"}
    assert "[2/2]" in capsys.readouterr().out


def test_a_cluster_makes_the_runs(in_process, scene, tmp_path):
    """Sent to a worker as to another machine, though its thread is of this process."""
    needs.module("distributed")
    from distributed import LocalCluster

    how = dict(processes=False, threads_per_worker=1, resources={"device": 1}, memory_limit=0)
    with LocalCluster(1, protocol="tcp://", dashboard_address=None, **how) as cluster:
        address, out = cluster.scheduler_address, tmp_path / "out"
        axes = f"--format unorm8 float16 --scheduler {address} --result-dir {out}"
        assert hardsplat_sweep(scene, FEW, axes) == 0
    statuses = {name: record["status"] for name, record in records(out).items()}
    assert statuses == dict.fromkeys(("format-unorm8", "format-float16"), "done")
    assert len(in_process) == 2


BAD_FLAGS = [
    ("--format unorm8 unorm7", ["--format: expected one of", *FORMATS, "got 'unorm7'"]),
    ("--reduction quads", ["--reduction: expected one of", *REDUCTIONS, "got 'quads'"]),
    ("--seed 1 x", ["--seed: expected a whole number", "got 'x'"]),
    ("--config nothing", ["no preset 'nothing'"]),
    ("--formats unorm8", ["unknown flag '--formats'; did you mean '--format'?"]),
    ("--resume", ["unknown flag '--resume'"]),
    ("--scheduler tcp://a:1 --device 0 1", ["--device 0 1: each worker of --scheduler has its"]),
]


@pytest.mark.parametrize("flags, words", BAD_FLAGS)
def test_bad_flags(scene, tmp_path, error_of, flags, words):
    error = error_of("sweep", scene, "--result-dir", tmp_path / "out", flags)
    assert all(word in error for word in words)
    assert not (tmp_path / "out").exists()
