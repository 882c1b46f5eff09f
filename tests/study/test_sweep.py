"""`hardsplat sweep`: its runs, records, failures, tables, page, executors, bad input."""

import csv
import json
import re

import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.report import charts
from hardsplat.study.sweep import one_run, run_file
from hardsplat.study.sweep.plan import plan
from hardsplat.study.sweep.sweep_plots import PLOTS, quality_time, write_plots
from hardsplat.study.sweep.sweep_tables import Point
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.reductions import REDUCTIONS
from tests.helpers import needs
from tests.helpers.browser import open_page, parts
from tests.helpers.sweeping import in_this_process
from tests.helpers.tables import argv

FEW = "--max-steps 2 --sh-degree 0 --strategy none --block 1x1 --quiet"


def hardsplat_sweep(*words) -> int:
    return main(["sweep", *argv(*words)])


def few(scene, **settings) -> dict:
    return {"data_dir": scene, **settings}


@pytest.fixture
def in_process(device, monkeypatch):
    """Runs are made in this process. Returns the folders of those made."""
    monkeypatch.setattr(device, "close", lambda: None)  # others need it still
    for module in ("hardsplat.train.run.trainer", "hardsplat.study.sweep.one_run"):
        monkeypatch.setattr(f"{module}.open_device", lambda wanted: device)
    return in_this_process(monkeypatch)


def records(folder) -> dict[str, dict]:
    found = (folder / "runs").glob("*/run.json")
    return {path.parent.name.rsplit("-", 1)[0]: json.loads(path.read_text()) for path in found}


def test_every_combination_once(scene):
    axes = {"format": ["unorm8", "float16"], "reduction": ["quad", "atomic"], "seed": [1, 2]}
    jobs = plan(None, few(scene, max_steps=8), axes)
    assert len(jobs) == 8 == len({j.id for j in jobs}) == len({j.name for j in jobs})
    assert jobs[1].varied == {"format": "unorm8", "reduction": "quad", "seed": 2}
    assert jobs[1].name == f"format-unorm8_reduction-quad_seed-2-{jobs[1].id}"
    settings = jobs[0].settings
    assert settings["eval_steps"] == [2, 4, 6] and settings["save_steps"] == []
    assert "result_dir" not in settings and json.loads(json.dumps(settings)) == settings
    asked = plan(None, few(scene, eval_steps=(3,), save_steps=(5,)), {})[0].settings
    assert (asked["eval_steps"], asked["save_steps"]) == ([3], [5])


SCRIPT = """
  const choice = document.querySelector("select"), options = choice.options;
  choice.value = options[2].value; choice.dispatchEvent(new Event("change"));
  const same = document.querySelector(".pair img").src
    === document.getElementById(options[2].value).src;
  document.body.dataset.chosen = same + " " + document.querySelector(".ends span").textContent;
"""


def test_a_sweep_from_flags_to_page(in_process, device, scene, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hardsplat.study.sweep.sweep.write_plots", write_plots)
    lacking, out = "quad", tmp_path / "out"
    less = device.capabilities.names - {*REDUCTIONS[lacking].needs}
    monkeypatch.setattr(device.capabilities, "names", less)
    # After two steps no splat is a sphere, whose gradient by rotation is rounding.
    axes = f"--format unorm8 float32 --reduction atomic {lacking} --scales-lr 0.2 --result-dir"
    command = argv(scene, FEW, axes, out)
    assert hardsplat_sweep(*command) == 0
    said, found = capsys.readouterr().out, records(out)
    why = found[f"format-float32_reduction-{lacking}"]["error"]
    assert "4 runs: 0 done before, 4 to do" in said and " lacks " in why
    assert f"[4/4] format float32, reduction {lacking}: skipped: {why}\n" in said
    assert sorted(r["status"] for r in found.values()) == ["done", "done", "skipped", "skipped"]
    record = found["format-unorm8_reduction-atomic"]
    metrics, gradients = record["metrics"], record["gradients"]
    assert list(record) == list(run_file.KEYS) and metrics["steps"] == 2
    assert metrics["variants"]["format"] == "unorm8"
    assert metrics["variants"]["blending"] == "fixed"  # of lists formats are much the same
    assert gradients["view"] == "view_0000.jpg" and max(gradients["errors"].values()) > 1e-4
    assert not list(out.glob("runs/*/ckpts"))
    assert max(found["format-float32_reduction-atomic"]["gradients"]["errors"].values()) < 1e-5

    text = (out / "sweep.md").read_text()
    assert "| format | reduction | PSNR [dB] | SSIM |" in text
    assert text.count(f"skipped: {why}") == 2
    assert re.search(r"\nformat +reduction +PSNR \[dB\] +SSIM ", said) and "|" not in said
    titles = ("Results", "Time by stage", "Gradient error", "Not done")
    assert all(f"## {title}" in text for title in titles)
    with open(out / "sweep.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 4 and sum(r["status"] == "done" for r in table) == 2
    row = next(r for r in table if (r["format"], r["reduction"]) == ("unorm8", "atomic"))
    assert float(row["psnr"]) == metrics["evaluations"][-1]["psnr"]
    assert float(row["ms backward draw"]) > 0 < float(row["bytes parameters"])
    assert row["device"] == metrics["device"]["name"]
    assert float(row["errors means"]) == gradients["errors"]["means"]
    assert {p.name for p in out.glob("*.png")} == {f"sweep_{name}.png" for name in PLOTS}

    page = out / "report.html"
    pictures, plots = parts(page)
    # Two views: slider's two, photograph, and render and difference of two formats.
    assert len(pictures) == 2 * (1 + 1 + 1 + 2 * 2)
    units = ("PSNR of held-out views [dB]", "[ms]", "float32 target", "[MiB]")
    assert all(unit in svg for unit, svg in zip(units, plots, strict=True))
    links = re.findall(r'href="([^"]*)"', page.read_text())
    assert all((out / link).is_file() for link in links)
    (tmp_path / "first.html").write_text(page.read_text())

    # The same again: what is done is not, what is half done and what the device lacked are.
    monkeypatch.setattr("hardsplat.study.sweep.sweep.write_plots", lambda folder, records: {})
    in_process.clear()
    half = next(out.glob("runs/format-unorm8_reduction-atomic*"))
    (half / "run.json").write_text((half / "run.json").read_text()[:-20])
    (half / "splats.ply").write_text("half")
    assert hardsplat_sweep(*(w if w != lacking else "atomic" for w in command)) == 0
    assert in_process == [half] and "2 runs: 1 done before, 1 to do" in capsys.readouterr().out
    assert records(out)["format-unorm8_reduction-atomic"]["status"] == "done"
    assert not (half / "earlier_1").exists()
    dom, shot = open_page(tmp_path / "first.html", tmp_path, SCRIPT)
    assert "broken 0 of 18, wide false" in dom and 'data-chosen="true float32 atomic"' in dom
    assert len(shot.getcolors(1 << 24)) > 20


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


def test_failures_stay_with_their_run(in_process, scene, tmp_path, monkeypatch, capsys):
    real = one_run.run_training

    def fails(config):
        if config.run.seed == 1:
            raise UserError("no memory at step 1")
        if config.run.seed == 2:
            raise ZeroDivisionError("a bug")
        return real(config)

    monkeypatch.setattr(one_run, "run_training", fails)
    command = argv(scene, "--seed 1 2 3", FEW, "--result-dir", tmp_path)
    assert hardsplat_sweep(*command) == 1
    errors = {r["settings"].get("seed"): r["error"] for r in records(tmp_path).values()}
    assert errors == {1: "no memory at step 1", 2: "ZeroDivisionError: a bug", 3: None}
    statuses = sorted(r["status"] for r in records(tmp_path).values())
    assert statuses == ["done", "failed", "failed"]
    assert "\nseed=1: failed: no memory at step 1" in capsys.readouterr().out
    monkeypatch.setattr(one_run, "run_training", real)
    in_process.clear()
    assert hardsplat_sweep(*command) == 0 and len(in_process) == 2  # those that failed
    monkeypatch.setattr(one_run, "run_training", fails)
    words = "--seed 1 --format unorm8 --result-dir"
    assert hardsplat_sweep(scene, FEW, words, tmp_path / "other") == 2
    error = "none of the 1 runs was done; the last: no memory at step 1"
    assert error in capsys.readouterr().err


def test_a_dask_cluster_of_this_machine(scene, tmp_path, capsys):
    needs.module("distributed")
    axes = "--reduction atomic quad --device 0 0 --result-dir"
    command = argv(scene, FEW, axes, tmp_path)
    assert hardsplat_sweep(*command, "--executor dask") == 0
    found = records(tmp_path)
    assert len(found) == 2 and found["reduction-atomic"]["metrics"]["steps"] == 2
    assert {r["status"] for r in found.values()} <= {"done", "skipped"}
    assert "[2/2]" in capsys.readouterr().out
    assert hardsplat_sweep(*command) == 2
    assert "--device 0 0 takes --executor dask" in capsys.readouterr().err


BAD_FLAGS = [
    ("--format unorm8 unorm7", ["--format: expected one of", *FORMATS, "got 'unorm7'"]),
    ("--reduction quads", ["--reduction: expected one of", *REDUCTIONS, "got 'quads'"]),
    ("--seed 1 x", ["--seed: expected a whole number", "got 'x'"]),
    ("--config nothing", ["no preset 'nothing'"]),
    ("--formats unorm8", ["unknown flag '--formats'; did you mean '--format'?"]),
    ("--executor slurm", ["expected one of local, dask, got 'slurm'"]),
    ("--resume", ["unknown flag '--resume'"]),
]


@pytest.mark.parametrize("flags, words", BAD_FLAGS)
def test_bad_flags(scene, tmp_path, error_of, flags, words):
    error = error_of("sweep", scene, "--result-dir", tmp_path / "out", flags)
    assert all(word in error for word in words)
    assert not (tmp_path / "out").exists()
