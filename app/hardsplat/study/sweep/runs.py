"""Runs of a sweep: run.json, the record of one in a stable schema, and processes that make them.

- schema: 2. id, name: see plan.py.
- status: running, done, failed (error: why), skipped (error: what the device lacks), interrupted.
- varied: settings, and names of a plan, that tell the run from the others of its sweep.
- settings: all settings that matter, resolved, defaults too. named: those that the user named.
- hardsplat, commit, started: version, checkout, ISO date.
- seconds: wall-clock seconds of the whole run. metrics: metrics.json of the run, or null.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Generator, Sequence
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import json_of, write_json, written
from hardsplat.base.version import __version__
from hardsplat.study.sweep.plan import SweepJob
from hardsplat.study.workers import how_it_ended, on_workers, run_child

NAME, SCHEMA = "run.json", 2
Todo = Sequence[tuple[Path, SweepJob]]  # runs with their folders


def new(job: SweepJob) -> dict:
    about = dict(schema=SCHEMA, id=job.id, name=job.name, status="running", error=None)
    made = dict(varied=job.varied, settings=job.settings, named=job.named, hardsplat=__version__)
    later = dict.fromkeys(("commit", "started", "seconds", "metrics"))
    return about | made | later


KEYS = new(SweepJob("", "", {}, {})).keys()


def write(folder: Path, record: dict) -> dict:
    """Writes run.json whole or not at all, so that a run whose file has `done` is complete."""
    write_json(folder / NAME, record)
    return record


def read(folder: Path) -> dict | None:
    """None where there is no such file, or not one of ours."""
    try:
        record = json_of((folder / NAME).read_text())
        record.setdefault("named", [])  # which older versions did not write
        return record if record["schema"] == SCHEMA and record.keys() >= KEYS else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def find(runs: Path, job: SweepJob) -> Path:
    """The folder of a job below `runs`, whichever sweep made it, or the one that it gets."""
    return next(runs.glob(f"*-{job.id}"), runs / job.name)


def make(
    todo: Todo, devices: Sequence[str] = (), scheduler: str | None = None, show: bool = False
) -> Generator[tuple[SweepJob, dict], None, None]:
    """Makes runs, and yields each with its record as it ends, see `on_workers`. show: the
    progress of the runs of one device appears on stderr too, besides log.txt."""
    tasks = [(folder, job, show and not scheduler and len(devices) < 2) for folder, job in todo]
    for number, outcome in on_workers(_run, tasks, devices or [None], scheduler):
        job = todo[number][1]
        if isinstance(outcome, Exception):
            said = f"its worker failed: {type(outcome).__name__}: {outcome}"
            why = str(outcome) if isinstance(outcome, UserError) else " ".join(said.split())
            outcome = new(job) | {"status": "failed", "error": why}
        yield job, outcome


def _run(folder: Path, job: SweepJob, show: bool) -> dict:
    """Does a run in `folder`, by a process (one_run.py), and returns its record.

    An interrupted run resumes from its checkpoint; anything else in the folder is half a run, which
    begins again.
    """
    before = read(folder)
    if before is None or before["status"] != "interrupted":
        shutil.rmtree(folder, ignore_errors=True)
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, new(job))
        code = run_child("hardsplat.study.sweep.one_run", folder, None, show)
    record = read(folder) or new(job)
    if record["status"] == "running":  # it came to an end of which it could not tell
        if code in (130, -signal.SIGINT, -signal.SIGTERM):
            record |= {"status": "interrupted", "error": None}
        else:
            record |= {"status": "failed", "error": how_it_ended(code, folder)}
        write(folder, record)
    return record
