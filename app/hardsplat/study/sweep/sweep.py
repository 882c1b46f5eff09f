"""`hardsplat sweep`: scenes, trained with every combination of settings, and a comparison.

The result folder: runs/<name>/ (a run's own folder, with run.json), sweep.csv, sweep.md,
report.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import written
from hardsplat.io.scenes.scene import load_scene
from hardsplat.report.page import write_page
from hardsplat.results.folder import make_folder
from hardsplat.results.metrics import last_evaluation
from hardsplat.study.bench.bench import provenance
from hardsplat.study.sweep import runs
from hardsplat.study.sweep.page import page_values
from hardsplat.study.sweep.plan import Arm, SweepJob, plan
from hardsplat.study.sweep.tables import markdown, write_csv


def sweep(
    arms: Sequence[Arm],
    result_dir: Path,
    devices: Sequence[str] = (),
    scheduler: str | None = None,
    quiet: bool = False,
) -> list[dict]:
    """Does the runs that are not done yet, and returns the records of all (see
    app/hardsplat/study/sweep/runs.py), in the order of the axes.

    devices, scheduler: see `runs.make`. A run that fails is recorded, and made again by the next
    sweep into the folder. Raises UserError for bad input, before anything is trained, and when no
    run was done; KeyboardInterrupt after saving.
    """
    jobs = plan(arms)
    make_folder(result_dir)
    make_folder(below := (result_dir / "runs").resolve())  # workers may be elsewhere
    _check_scenes(jobs)
    folders = {job.id: runs.find(below, job) for job in jobs}
    before = {id: runs.read(folder) for id, folder in folders.items()}
    records = {id: r for id, r in before.items() if r and r["status"] == "done"}
    todo = [(folders[job.id], job) for job in jobs if job.id not in records]
    counts = f"{len(jobs)} runs: {len(records)} done before, {len(todo)} to do"
    print(f"{counts}; results in {result_dir}", flush=True)

    def results() -> list[dict]:
        there = [job for job in jobs if job.id in records]
        return [
            records[job.id] | {"varied": job.varied, "folder": folders[job.id].name}
            for job in there
        ]

    about = provenance()
    try:
        # closed before the records are read: children save then
        with closing(runs.make(todo, devices, scheduler, not quiet)) as made:
            for n, (job, record) in enumerate(made if todo else (), 1):
                records[job.id] = record
                print(f"[{n}/{len(todo)}] {line(record)}", flush=True)
                _write_tables(result_dir, results(), about)
    except KeyboardInterrupt:
        for folder, job in todo:  # what was saved on the way out
            if job.id not in records and (saved := runs.read(folder)):
                records[job.id] = saved
        if records:
            _write_all(result_dir, results(), about)
        tables = f"tables of what is are in {result_dir}"
        print(f"interrupted: the same command continues what is not done; {tables}", flush=True)
        raise
    _write_all(result_dir, results(), about)
    print(f"\n{markdown(results(), about)}\n\nreport: {result_dir / 'report.html'}")
    if not any(r["status"] == "done" for r in records.values()):
        last = records[jobs[-1].id]["error"]
        raise UserError(f"none of the {len(jobs)} runs was done; the last: {last}")
    return results()


def _check_scenes(jobs: Sequence[SweepJob]) -> None:
    """Opens all scenes, so that what is wrong with one is said before anything is trained."""
    names = "data_dir", "data_factor", "test_every", "exclude"
    scenes = {str([job.settings.get(n) for n in names]): job.settings for job in jobs}
    for of in scenes.values():
        factor, every = of["data_factor"], of["test_every"]
        scene = load_scene(of["data_dir"], factor, every, exclude=of.get("exclude", ()))
        if not scene.test:
            what = "no view is held out, so quality is not measured"
            print(f"note: {scene.name}: {what}", flush=True)


def line(record: dict) -> str:
    """A run in a line."""
    name = ", ".join(f"{n} {v}" for n, v in record["varied"].items()) or record["name"]
    if record["status"] != "done":
        return f"{name}: {record['status']}{': ' + record['error'] if record['error'] else ''}"
    metrics = record["metrics"]
    last = last_evaluation(metrics)
    quality = f"PSNR {last['psnr']:.2f} dB, SSIM {last['ssim']:.4f}, " if last else ""
    seconds = f"{metrics['seconds']['training']:.1f} s of training"
    return f"{name}: {quality}{metrics['splats']:,} splats, {seconds}"


def _write_tables(folder: Path, records: list[dict], about: dict) -> None:
    with written(path := folder / "sweep.md"):
        path.write_text(markdown(records, about) + "\n", encoding="utf-8")
    with written(path := folder / "sweep.csv"):
        write_csv(path, records)


def _write_all(folder: Path, records: list[dict], about: dict) -> None:
    _write_tables(folder, records, about)
    write_page(folder / "report.html", "sweep.html", **page_values(folder, records, about))
