"""`hardsplat sweep`: one scene, trained with every combination of settings, and a comparison.

The result folder: runs/<name>/ (a run's own folder, with run.json), sweep.csv, sweep.md,
report.html, sweep_<plot>.png.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.base.files import written
from hardsplat.io.scenes.scene import load_scene
from hardsplat.report.page import write_page
from hardsplat.results.folder import make_folder
from hardsplat.results.metrics import last_evaluation
from hardsplat.study.bench.bench import provenance
from hardsplat.study.sweep import executors, run_file
from hardsplat.study.sweep.plan import plan
from hardsplat.study.sweep.sweep_page import page_values
from hardsplat.study.sweep.sweep_plots import write_plots
from hardsplat.study.sweep.sweep_tables import markdown, outcome, write_csv


def sweep(
    preset: str | None,
    common: Mapping[str, Any],
    axes: Mapping[str, Sequence],
    result_dir: Path,
    executor: str = "local",
    devices: Sequence[str] = (),
    scheduler: str | None = None,
    quiet: bool = False,
) -> list[dict]:
    """Does the runs that are not done yet, and returns the records of all (see
    app/hardsplat/study/sweep/run_file.py), in the order of the axes.

    common: settings of all runs. axes: those with several values. executor: local or dask, see
    app/hardsplat/study/sweep/executors.py. A run that fails is recorded, and made again by the next
    sweep into the folder. Raises UserError for bad input, before anything is trained, and when no
    run was done; KeyboardInterrupt after saving.
    """
    if executor == "local" and (len(devices) > 1 or scheduler):
        flag = f"--scheduler {scheduler}" if scheduler else "--device " + " ".join(devices)
        raise UserError(f"{flag} takes --executor dask")
    jobs = plan(preset, common, axes)
    make_folder(result_dir)
    make_folder(runs := (result_dir / "runs").resolve())  # workers may be elsewhere
    of = jobs[0].settings
    how = of["data_factor"], of["test_every"]
    scene = load_scene(of["data_dir"], *how, exclude=of.get("exclude", ()))
    if not scene.test:
        print("note: no view is held out, so quality is not measured", flush=True)
    found = {job.id: run_file.find(runs, job) for job in jobs}
    for job in jobs:
        for other in runs.glob(f"*-{job.id}*"):
            if (record := run_file.read(other)) and (why := run_file.difference(record, job)):
                stays = f"{other} stays as it is: a run with other settings ({why})"
                print(f"note: {stays}", flush=True)
    records = {id: r for id, (_, r) in found.items() if r and r["status"] == "done"}
    todo = [(found[job.id][0], job) for job in jobs if job.id not in records]
    counts = f"{len(jobs)} runs: {len(records)} done before, {len(todo)} to do"
    print(f"{counts}; results in {result_dir}", flush=True)

    def results() -> list[dict]:
        there = [job for job in jobs if job.id in records]
        named = ({"varied": job.varied, "folder": found[job.id][0].name} for job in there)
        return [records[job.id] | names for job, names in zip(there, named)]

    about = provenance("minutes")
    try:
        if todo:
            with _terminable():
                if executor == "dask":
                    done = executors.dask(todo, devices or [None], scheduler)
                else:
                    done = executors.local(todo, devices[0] if devices else None, not quiet)
                for n, (job, record) in enumerate(done, 1):
                    records[job.id] = record
                    print(f"[{n}/{len(todo)}] {line(record)}", flush=True)
                    _write_tables(result_dir, results(), about)
    except KeyboardInterrupt:
        for job in jobs:  # what was saved on the way out
            record = run_file.find(runs, job)[1]
            if job.id not in records and record:
                records[job.id] = record
        if records:
            _write_all(result_dir, results(), about)
        tables = f"tables of what is are in {result_dir}"
        print(f"interrupted: the same command continues what is not done; {tables}", flush=True)
        raise
    _write_all(result_dir, results(), about)
    print(f"\n{outcome(results())}\n\nresult: {result_dir}  report: {result_dir / 'report.html'}")
    if not any(r["status"] == "done" for r in records.values()):
        last = records[jobs[-1].id]["error"]
        raise UserError(f"none of the {len(jobs)} runs was done; the last: {last}")
    return results()


def line(record: dict) -> str:
    """A run in a line."""
    name = ", ".join(f"{n} {v}" for n, v in record["varied"].items()) or record["name"]
    if record["status"] != "done":
        return f"{name}: {record['status']}{': ' + record['error'] if record['error'] else ''}"
    metrics = record["metrics"]
    last = last_evaluation(metrics)
    quality = f"PSNR {last['psnr']:.2f} dB, SSIM {last['ssim']:.4f}, " if last else ""
    seconds = f"{metrics['seconds']['training']:.1f} s of training"
    return f"{name}: {quality}{metrics['splats']} splats, {seconds}"


@contextmanager
def _terminable():
    """SIGTERM ends the sweep as Ctrl-C does."""

    def interrupt(number, frame):
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _write_tables(folder: Path, records: list[dict], about: dict) -> None:
    with written(path := folder / "sweep.md"):
        path.write_text(markdown(records, about) + "\n", encoding="utf-8")
    with written(path := folder / "sweep.csv"):
        write_csv(path, records)


def _write_all(folder: Path, records: list[dict], about: dict) -> None:
    """Tables, plots and the page."""
    _write_tables(folder, records, about)
    plots = write_plots(folder, records)
    write_page(folder / "report.html", "sweep.html", **page_values(folder, records, plots, about))
