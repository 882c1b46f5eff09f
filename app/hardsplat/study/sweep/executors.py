"""Executors of a sweep: this machine, one run after another, or the workers of a Dask cluster.

An executor takes jobs and yields (job, record) as runs end. Every run is a process, see
app/hardsplat/study/sweep/one_run.py.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import written
from hardsplat.study.sweep import run_file
from hardsplat.study.sweep.plan import SweepJob
from hardsplat.study.workers import how_it_ended, on_workers, run_child


def execute(folder: Path, job: SweepJob, device: str | None = None, show: bool = False) -> dict:
    """Does a run in `folder` and returns its record. show: what it prints appears on stderr too,
    besides log.txt.

    An interrupted run resumes from its checkpoint; anything else in the folder is half a run, which
    begins again.
    """
    before = run_file.read(folder)
    if before is None or before["status"] != "interrupted" or run_file.difference(before, job):
        shutil.rmtree(folder, ignore_errors=True)
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        run_file.write(folder, run_file.new(job))
        code, interrupted = run_child("hardsplat.study.sweep.one_run", folder, device, show)
    record = run_file.read(folder) or run_file.new(job)
    if record["status"] == "running":  # it came to an end of which it could not tell
        if code in (130, -signal.SIGINT, -signal.SIGTERM):
            record |= {"status": "interrupted", "error": None}
        else:
            why = how_it_ended(code, folder)
            record |= {"status": "failed", "error": why}
        run_file.write(folder, record)
    if interrupted:
        raise interrupted
    return record


def local(
    jobs: Sequence[tuple[Path, SweepJob]], device: str | None, show: bool
) -> Iterator[tuple[SweepJob, dict]]:
    """One after another."""
    for folder, job in jobs:
        yield job, execute(folder, job, device, show)


def dask(
    jobs: Sequence[tuple[Path, SweepJob]], devices: Sequence[str | None], scheduler: str | None
) -> Iterator[tuple[SweepJob, dict]]:
    """On the workers of the cluster at `scheduler`, or on one for each of `devices`, see
    `on_workers`."""
    for number, outcome in on_workers(execute, jobs, devices, scheduler):
        job = jobs[number][1]
        if isinstance(outcome, Exception):
            said = f"its worker failed: {type(outcome).__name__}: {outcome}"
            why = str(outcome) if isinstance(outcome, UserError) else " ".join(said.split())
            outcome = run_file.new(job) | {"status": "failed", "error": why}
        yield job, outcome
