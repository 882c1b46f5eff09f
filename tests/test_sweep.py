"""`hardsplat sweep`: which runs there are, records that can be resumed, failures that stay with their run, tables, page, executors, bad input."""

import csv
import json
import os
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest

from hardsplat.cli import main
from hardsplat.config import FIELDS
from hardsplat.errors import UserError
from hardsplat.study import executors, one_run, run_file, sweep_page
from hardsplat.study.plan import Job, identity, plan
from hardsplat.study.sweep import sweep
from hardsplat.study.sweep_page import difference
from hardsplat.study.sweep_plots import PLOTS, write_plots
from hardsplat.study.sweep_tables import axes_of, label_of, points
from hardsplat.train.trainer import Run
from hardsplat.variants.formats import FORMATS
from hardsplat.variants.reductions import REDUCTIONS
from tests.browser import all_grey, open_page, parts

FEW = ["--max-steps", "2", "--sh-degree", "0", "--strategy", "none", "--block", "1x1", "--quiet"]


@pytest.fixture
def in_process(device, monkeypatch):
    """Runs are made in this process, on its device, and no plots are drawn: the folders of those that were made."""
    made = []
    monkeypatch.setattr("hardsplat.report.maker.save_plots", lambda folder, metrics: None)
    monkeypatch.setattr("hardsplat.study.sweep.write_plots", lambda folder, records: {})

    def process(folder, wanted, show):
        made.append(folder)
        try:
            return int(one_run.run(folder)["status"] == "failed")
        except KeyboardInterrupt:
            return 130

    monkeypatch.setattr(device, "close", lambda: None)  # others need it still
    for module in ("hardsplat.train.trainer", "hardsplat.study.one_run"):
        monkeypatch.setattr(f"{module}.open_device", lambda wanted: device)
    monkeypatch.setattr(executors, "_process", process)
    return made


def stand_in(monkeypatch, script: str) -> None:
    """Instead of Python, processes of runs are this shell script, given -m, the module and the folder."""
    monkeypatch.setattr(executors.sys, "executable", "/bin/sh")
    popen = executors.subprocess.Popen
    monkeypatch.setattr(executors.subprocess, "Popen", lambda command, **how: popen(["/bin/sh", "-c", script, *command[1:]], **how))


def records(folder) -> dict[str, dict]:
    return {path.parent.name.rsplit("-", 1)[0]: json.loads(path.read_text()) for path in (folder / "runs").glob("*/run.json")}


# -- which runs -------------------------------------------------------------------------------------------------------------------


def test_every_combination_once(scene):
    jobs = plan(None, {"data_dir": scene, "max_steps": 8}, {"format": ["unorm8", "float16"], "reduction": ["quad", "atomic"], "seed": [1, 2]})
    assert len(jobs) == 8 == len({j.id for j in jobs}) == len({j.name for j in jobs})
    assert jobs[1].varied == {"format": "unorm8", "reduction": "quad", "seed": 2} and jobs[1].name == f"format-unorm8_reduction-quad_seed-2-{jobs[1].id}"
    assert jobs[0].settings["eval_steps"] == [2, 4, 6] and jobs[0].settings["save_steps"] == [] and "result_dir" not in jobs[0].settings
    assert json.loads(json.dumps(jobs[0].settings)) == jobs[0].settings
    asked = plan(None, {"data_dir": scene, "eval_steps": (3,), "save_steps": (5,)}, {})[0].settings
    assert (asked["eval_steps"], asked["save_steps"]) == ([3], [5])


def test_what_the_rasterizer_does_not_know_makes_no_runs(scene):
    axes = {"rasterizer": ["hardware", "tiled"], "format": ["unorm8", "float32"], "tile_backward": ["atomic", "per-splat"], "seed": [1, 2]}
    jobs = plan(None, {"data_dir": scene}, axes)
    assert [tuple(j.varied.values()) for j in jobs[::2]] == [("hardware", "unorm8", 1), ("hardware", "float32", 1), ("tiled", "atomic", 1), ("tiled", "per-splat", 1)]
    thresholds = plan(None, {"data_dir": scene}, {"reduction": ["atomic", "hybrid"], "hybrid_threshold": [8, 16]})
    assert [j.varied.get("hybrid_threshold") for j in thresholds] == [None, 8, 16]


def test_the_identity_is_of_settings_that_are_not_defaults(scene):
    one, other = (plan("quick", {"data_dir": scene, **more}, axes)[0] for more, axes in (({"seed": 3}, {}), ({}, {"seed": [3, 4], "format": ["float16", "unorm8"]})))
    assert one.id == other.id and one.name != other.name
    assert identity({}) == identity({n: list(f.default) if isinstance(f.default, tuple) else f.default for n, f in FIELDS.items()})
    assert one.id != plan(None, {"data_dir": scene, "seed": 3}, {})[0].id != plan(None, {"data_dir": scene, "seed": 4}, {})[0].id


def test_presets_of_a_strategy_come_with_it(scene):
    adaptive, mcmc = plan(None, {"data_dir": scene}, {"strategy": ["adaptive", "mcmc"]})
    assert (adaptive.settings["cap_max"], mcmc.settings["cap_max"]) == (0, 1_000_000)


# -- records ----------------------------------------------------------------------------------------------------------------------


def test_only_a_whole_record_of_the_same_settings_counts(tmp_path):
    job = Job("0123456789", "format-unorm8-0123456789", {"format": "unorm8"}, {"format": "unorm8", "seed": 1})
    folder = tmp_path / "seed-1-0123456789"  # of a sweep over something else
    folder.mkdir()
    assert run_file.find(tmp_path, job) == (folder, None)
    record = run_file.write(folder, run_file.new(job) | {"status": "done"})
    assert run_file.find(tmp_path, job) == (folder, record) and [p.name for p in folder.iterdir()] == ["run.json"]
    for changed in ({"settings": {"format": "unorm8", "seed": 2}}, {"hardsplat": "0.0.9"}, {"settings": {"format": "unorm8"}}, {"settings": {**job.settings, "sh_degree": 2}}):
        run_file.write(folder, record | changed)  # its own folder: what is in this one stays
        assert run_file.find(tmp_path, job) == (tmp_path / job.name, None), changed
    for text in ("", "{", "[]", json.dumps({"schema": 2}), json.dumps({"schema": 1}), json.dumps(record)[:-5]):
        (folder / "run.json").write_text(text)
        assert run_file.find(tmp_path, job) == (folder, None)
    assert run_file.find(tmp_path / "none", job) == (tmp_path / "none" / job.name, None)


def test_runs_of_other_defaults_stay_and_are_not_gone_on_with(in_process, scene, tmp_path, monkeypatch, capsys):
    """After a default changed, a job has the identity of a run that was made with the old one."""
    command = ["sweep", str(scene), *FEW, "--format", "float16", "--result-dir", str(tmp_path)]
    assert main(command) == 0 and len(in_process) == 1
    (folder,) = (tmp_path / "runs").iterdir()
    before = (folder / "splats.ply").read_bytes()
    for status in ("done", "interrupted"):
        record = run_file.read(folder)
        run_file.write(folder, record | {"status": status, "settings": record["settings"] | {"opacities_lr": 0.5}})
        in_process.clear()
        assert main(command) == 0 and len(in_process) == (status == "done")  # the second time the new run is there
        assert (folder / "splats.ply").read_bytes() == before and "opacities_lr 0.5, now 0.05" in capsys.readouterr().out
    other = tmp_path / "runs" / f"{folder.name}-2"
    assert run_file.read(other)["settings"]["opacities_lr"] == 0.05 and run_file.read(other)["status"] == "done"


# -- a sweep ----------------------------------------------------------------------------------------------------------------------


def test_a_sweep_from_flags_to_page(in_process, scene, tmp_path, monkeypatch, capsys):
    lacking = "partitioned"
    monkeypatch.setattr("hardsplat.study.sweep.write_plots", write_plots)
    monkeypatch.setattr("hardsplat.study.one_run._lacking", lambda config: "the device lacks partitions" if config.reduction == lacking else None)
    shaped = ["--scales-lr", "0.2"]  # after two steps no splat is a sphere, whose gradient by rotation is rounding
    command = ["sweep", str(scene), "--format", "unorm8", "float32", "--reduction", "atomic", lacking, *FEW, *shaped, "--result-dir", str(tmp_path / "out")]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "4 runs: 0 done before, 4 to do" in out and f"[4/4] format float32, reduction {lacking}: skipped: the device lacks partitions\n" in out
    found = records(tmp_path / "out")
    assert len(found) == 4 and {r["status"] for r in found.values()} == {"done", "skipped"}
    record = found["format-unorm8_reduction-atomic"]
    assert list(record) == list(run_file.KEYS) and record["metrics"]["steps"] == 2
    assert [record["metrics"]["variants"][name] for name in ("format", "blending")] == ["unorm8", "fixed"]  # not lists, where formats are much the same
    assert record["gradients"]["view"] == "view_0000.jpg" and max(record["gradients"]["errors"].values()) > 1e-4 and not list((tmp_path / "out").glob("runs/*/ckpts"))
    assert max(found["format-float32_reduction-atomic"]["gradients"]["errors"].values()) < 1e-5

    text = (tmp_path / "out/sweep.md").read_text()
    assert text in out and "| format | reduction | PSNR [dB] | SSIM |" in text and text.count("skipped: the device lacks partitions") == 2
    assert all(f"## {title}" in text for title in ("Results", "Time by stage", "Gradient error", "Not done"))
    with open(tmp_path / "out/sweep.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and sum(r["status"] == "done" for r in rows) == 2
    measured = next(r for r in rows if (r["format"], r["reduction"]) == ("unorm8", "atomic"))
    assert float(measured["psnr"]) == record["metrics"]["evaluations"][-1]["psnr"] and float(measured["ms backward draw"]) > 0 < float(measured["bytes parameters"])
    assert measured["device"] == record["metrics"]["device"]["name"] and float(measured["errors means"]) == record["gradients"]["errors"]["means"]
    assert sorted(p.name for p in (tmp_path / "out").glob("*.png")) == sorted(f"sweep_{name}.png" for name in PLOTS)

    page = tmp_path / "out/report.html"
    pictures, plots = parts(page)
    assert len(pictures) == 2 * (1 + 1 + 1 + 2 * 2)  # two views: slider's two, photograph, and render and difference of two formats
    assert all(all_grey(svg) for svg in plots) and ["PSNR of held-out views [dB]" in plots[0], "[ms]" in plots[1], "float32 target" in plots[2], "[MiB]" in plots[3]] == [True] * 4
    assert all((tmp_path / "out" / link).is_file() for link in re.findall(r'href="([^"]*)"', page.read_text()))
    script = """
  const choice = document.querySelector("select"), options = choice.options;
  choice.value = options[2].value; choice.dispatchEvent(new Event("change"));
  const same = document.querySelector(".pair img").src === document.getElementById(options[2].value).src;
  document.body.dataset.chosen = same + " " + document.querySelector(".ends span").textContent;
"""
    dom, shot = open_page(page, tmp_path, script)
    assert "broken 0 of 18, wide false" in dom and 'data-chosen="true float32 atomic"' in dom and len(shot.getcolors(1 << 24)) > 20

    monkeypatch.setattr("hardsplat.study.sweep.write_plots", lambda folder, records: {})
    in_process.clear()  # the same again: what is done is not, what is half done and what the device lacked are
    name = next(p for p in (tmp_path / "out/runs").iterdir() if p.name.startswith("format-unorm8_reduction-atomic"))
    (name / "run.json").write_text((name / "run.json").read_text()[:-20])
    (name / "splats.ply").write_text("half")
    assert main([w if w != lacking else "atomic" for w in command]) == 0
    assert in_process == [name] and "2 runs: 1 done before, 1 to do" in capsys.readouterr().out
    assert records(tmp_path / "out")["format-unorm8_reduction-atomic"]["status"] == "done" and not (name / "earlier_1").exists()


def test_failures_stay_with_their_run(in_process, scene, tmp_path, monkeypatch, capsys):
    real = one_run.train

    def fails(config):
        if config.seed == 1:
            raise UserError("no memory at step 1")
        if config.seed == 2:
            raise ZeroDivisionError("a bug")
        return real(config)

    monkeypatch.setattr(one_run, "train", fails)
    command = ["sweep", str(scene), "--seed", "1", "2", "3", *FEW, "--result-dir", str(tmp_path)]
    assert main(command) == 1
    assert [(r["status"], r["error"]) for _, r in sorted(records(tmp_path).items())] == [("failed", "no memory at step 1"), ("failed", "ZeroDivisionError: a bug"), ("done", None)]
    assert "- seed=1: failed: no memory at step 1" in capsys.readouterr().out
    monkeypatch.setattr(one_run, "train", real)
    in_process.clear()
    assert main(command) == 0 and len(in_process) == 2  # those that failed are made again
    monkeypatch.setattr(one_run, "train", fails)
    assert main([*command[:2], "--seed", "1", "--format", "unorm8", *FEW, "--result-dir", str(tmp_path / "other")]) == 2
    assert "none of the 1 runs was done; the last: no memory at step 1" in capsys.readouterr().err


def test_an_interrupted_run_goes_on_from_its_checkpoint(in_process, scene, tmp_path, monkeypatch):
    job = plan(None, {"data_dir": scene, "max_steps": 6, "sh_degree": 0, "strategy": "none", "batch_steps": 2}, {})[0]
    folder = tmp_path / job.name
    real, begun = one_run.train, []

    def interrupted(config):
        begun.append(config.resume)
        if config.resume:
            return real(config)
        run = Run(config)
        on_batch = run.session.on_batch
        run.session.on_batch = lambda result: (on_batch(result), setattr(run.stopping, "asked", signal.SIGINT))
        return run.train()

    monkeypatch.setattr(one_run, "train", interrupted)
    assert executors.execute(folder, job)["status"] == "interrupted" and list(folder.glob("ckpts/*"))
    record = executors.execute(folder, job)
    assert record["status"] == "done" and begun == [False, True] and record["metrics"]["steps"] == 6
    assert record["metrics"]["curve"]["step"][0] <= 2 and not (folder / "earlier_1").exists()


# -- processes --------------------------------------------------------------------------------------------------------------------


def test_a_run_that_dies_is_recorded_and_the_next_begins(scene, tmp_path, monkeypatch, capfd):
    stand_in(monkeypatch, 'echo "about to die"; kill -9 $$')
    jobs = plan(None, {"data_dir": scene}, {"seed": [1, 2]})
    with pytest.raises(UserError, match=r"none of the 2 runs was done; the last: the process ended by signal 9 \(SIGKILL\); see .*log.txt"):
        sweep(None, {"data_dir": scene}, {"seed": [1, 2]}, tmp_path)
    assert [r["status"] for r in records(tmp_path).values()] == ["failed"] * 2 and len(jobs) == 2
    assert all(p.read_text() == "about to die\n" for p in tmp_path.glob("runs/*/log.txt")) and "about to die" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_lets_the_run_save_and_ends_the_sweep(scene, tmp_path, monkeypatch, capfd, number):
    stand_in(monkeypatch, "echo begun; cat >/dev/null; echo saved; exit 130")  # ends when its standard input does, as a run

    def interrupt():
        while not any(p.read_text() for p in tmp_path.glob("runs/*/log.txt")):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main(["sweep", str(scene), "--seed", "1", "2", *FEW, "--result-dir", str(tmp_path)]) == 128 + number
    thread.join()
    assert [r["status"] for r in records(tmp_path).values()] == ["interrupted"] and next(tmp_path.glob("runs/*/log.txt")).read_text() == "begun\nsaved\n"
    assert "interrupted: the same command goes on with what is not done" in capfd.readouterr().out
    assert "seed=1: interrupted" in (tmp_path / "sweep.md").read_text() and (tmp_path / "report.html").is_file()


def test_a_process_trains_and_ends_with_its_parent(scene, tmp_path):
    job = plan(None, {"data_dir": scene, "max_steps": 100_000, "sh_degree": 0, "strategy": "none", "eval_steps": ()}, {})[0]
    folder = tmp_path / job.name

    def stop():
        while '"running"' not in (text := (folder / "run.json").read_text() if (folder / "run.json").is_file() else "") or not (folder / "config.toml").is_file():
            assert '"done"' not in text
            time.sleep(0.05)
        time.sleep(0.5)
        executors.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    record = executors.execute(folder, job)
    thread.join()
    assert record["status"] == "interrupted", (folder / "log.txt").read_text()
    assert list(folder.glob("ckpts/*")) and "checkpoint and splats.ply saved" in (folder / "log.txt").read_text() and "Fatal" not in (folder / "log.txt").read_text()


def test_a_dask_cluster_of_this_machine(scene, tmp_path, capsys):
    pytest.importorskip("distributed", reason="the executor dask takes distributed: pip install -e '.[dask]'")
    command = ["sweep", str(scene), "--reduction", "atomic", "partitioned", "--device", "0", "0", *FEW, "--result-dir", str(tmp_path)]
    assert main([*command, "--executor", "dask"]) == 0
    found = records(tmp_path)
    assert len(found) == 2 and found["reduction-atomic"]["metrics"]["steps"] == 2 and {r["status"] for r in found.values()} <= {"done", "skipped"}
    assert "[2/2]" in capsys.readouterr().out
    assert main(command) == 2 and "--device 0 0 takes --executor dask" in capsys.readouterr().err


def test_without_dask_it_says_what_to_install(scene, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["sweep", str(scene), *FEW, "--executor", "dask", "--result-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "hardsplat: error: --executor dask needs the package distributed: pip install 'hardsplat[dask]'\n"


# -- numbers and pictures ---------------------------------------------------------------------------------------------------------


def test_seeds_are_one_row(tmp_path):
    def record(seed, psnr, **varied):
        metrics = {"steps": 5, "splats": 10, "evaluations": [{"step": 5, "psnr": psnr, "ssim": 0.5}], "variants": {}}
        return {"status": "done", "varied": {"seed": seed, **varied}, "settings": {"data_dir": "/scene"}, "metrics": metrics}

    runs = [record(s, p, format=f, block="1x1") for f, s, p in (("unorm8", 1, 10.0), ("unorm8", 2, 12.0), ("float16", 1, 20.0))]
    assert axes_of(runs) == ["format", "seed"]
    unorm8, float16 = points(runs)
    get = lambda r: r["metrics"]["evaluations"][-1]["psnr"]
    assert (unorm8.label, unorm8.text(get, ".2f"), unorm8.mean(get)) == ("unorm8", f"11.00 ± {np.std([10, 12], ddof=1):.2f}", 11.0)
    assert (float16.text(get, ".2f"), float16.text(lambda r: None, ".2f"), unorm8.text(lambda r: 3, ".1f")) == ("20.00", "-", "3.0")
    assert label_of({"format": "unorm8", "seed": 3, "reduction": "auto", "block": None}) == "unorm8 seed=3 reduction=auto"


def test_differences_are_of_the_worst_channel():
    a, b = np.zeros((2, 2, 3), np.uint8), np.zeros((2, 2, 3), np.uint8)
    a[0, 0], b[0, 0], b[1, 1] = (10, 0, 0), (0, 5, 0), (200, 0, 0)
    assert difference(a, b).tolist() == [[40, 0], [0, 255]] and sweep_page.LOUDER == 4


# -- bad input --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--format", "unorm8", "unorm7"], ["--format: expected one of", *FORMATS, "got 'unorm7'"]),
        (["--reduction", "quads"], ["--reduction: expected one of", *REDUCTIONS, "got 'quads'"]),
        (["--seed", "1", "x"], ["--seed: expected a whole number", "got 'x'"]),
        (["--config", "nothing"], ["no preset 'nothing'"]),
        (["--formats", "unorm8"], ["unknown flag '--formats'; did you mean '--format'?"]),
        (["--executor", "slurm"], ["invalid choice: 'slurm'", "local", "dask"]),
        (["--resume"], ["unknown flag '--resume'"]),
    ],
)
def test_bad_flags(scene, tmp_path, capsys, flags, words):
    assert main(["sweep", str(scene), "--result-dir", str(tmp_path / "out"), *flags]) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in words) and err.count("\n") == 1 and not (tmp_path / "out").exists()


def test_bad_folders_are_said_before_anything_is_trained(scene, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(executors, "execute", lambda *_: pytest.fail("a run began"))
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for command, said in (
        (["sweep", str(scene), "--result-dir", str(tmp_path / "file")], f"cannot make the folder {tmp_path / 'file'}"),
        (["sweep", str(scene), "--result-dir", str(tmp_path / "file" / "below")], "cannot make the folder"),
        (["sweep", str(tmp_path / "nowhere")], f"scene {tmp_path / 'nowhere'} does not exist"),
        (["sweep", str(tmp_path / "empty"), "--result-dir", str(tmp_path / "out")], str(tmp_path / "empty")),
    ):
        assert main([*command, "--quiet"]) == 2
        assert said in capsys.readouterr().err


def test_an_unwritable_folder(scene, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hardsplat.results.folder.os.access", lambda path, mode: False)  # root may write anywhere
    assert main(["sweep", str(scene), "--result-dir", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"hardsplat: error: cannot write to the folder {tmp_path / 'out'}; choose another --result-dir\n"


def test_nothing_asked_for_is_all_formats(scene, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("hardsplat.study.sweep.sweep", lambda *given, **how: asked.append((given, how)) or [])
    for flags in ([], ["--format", "unorm8"], ["--reduction", "all", "--device", "1"]):
        assert main(["sweep", str(scene), *flags]) == 0
    assert [given[2] for given, _ in asked] == [{"format": list(FORMATS)}, {}, {"reduction": list(REDUCTIONS)}]
    assert asked[2][1]["devices"] == ["1"] and asked[1][0][1]["format"] == "unorm8" and asked[0][0][3].name == f"{scene.name}_sweep"
