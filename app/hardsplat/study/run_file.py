"""run.json, the record of one run of a sweep, in a stable schema.

schema     1
id, name   of the settings that decide the run, see app/hardsplat/study/plan.py
status     running | done | failed (error says why) | skipped (error: what the device lacks) | interrupted
varied     settings that tell the run from the others of its sweep
settings   all settings that matter
hardsplat, commit, started, seconds    version, checkout, ISO date, wall-clock seconds of the whole run
metrics    metrics.json of the run, or null
gradients  view, errors, cosines: gradients of the result against a float32 target, see app/hardsplat/study/measure.py; or null, or an `error`
"""

from __future__ import annotations

import json
from pathlib import Path

from hardsplat.errors import UserError
from hardsplat.files import replacing
from hardsplat.study.plan import Job

NAME, SCHEMA = "run.json", 1


def new(job: Job) -> dict:
    record = {"schema": SCHEMA, "id": job.id, "name": job.name, "status": "running", "error": None, "varied": job.varied, "settings": job.settings}
    return record | {"hardsplat": None, "commit": None, "started": None, "seconds": None, "metrics": None, "gradients": None}


KEYS = new(Job("", "", {}, {})).keys()


def write(folder: Path, record: dict) -> dict:
    """Whole or not at all, so that a file which says `done` is."""
    try:
        with replacing(folder / NAME) as partial:
            partial.write_text(json.dumps(record, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"cannot write {folder / NAME}: {error.strerror}") from None
    return record


def read(folder: Path) -> dict | None:
    """None where there is no such file, or not one of ours."""
    try:
        record = json.loads((folder / NAME).read_text())
        return record if record["schema"] == SCHEMA and record.keys() >= KEYS else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find(runs: Path, job: Job) -> tuple[Path, dict | None]:
    """The folder of a job below `runs`, whatever the sweep was called that made it, and its record, if it is of these settings."""
    folders = sorted(runs.glob(f"*-{job.id}"))
    for folder in folders:
        record = read(folder)
        if record and all(job.settings[n] == v for n, v in record["settings"].items() if n in job.settings):
            return folder, record
    return (folders[0] if folders else runs / job.name), None
