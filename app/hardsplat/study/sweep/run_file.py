"""run.json, the record of one run of a sweep, in a stable schema.

schema     1 id, name   of the settings that are not defaults, see app/hardsplat/study/sweep/plan.py
status     running | done | failed (error says why) | skipped (error: what the device lacks) |
interrupted varied     settings that tell the run from the others of its sweep settings   all
settings that matter, resolved, defaults too hardsplat, commit, started, seconds    version,
checkout, ISO date, wall-clock seconds of the whole run metrics    metrics.json of the run, or null
gradients  view, errors, cosines: gradients of the result against a float32 target, see
app/hardsplat/study/bench/measure.py; or null, or an `error`
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing
from hardsplat.base.version import __version__
from hardsplat.settings.train import FIELDS
from hardsplat.study.sweep.plan import Job

NAME, SCHEMA = "run.json", 1


def new(job: Job) -> dict:
    record = {
        "schema": SCHEMA,
        "id": job.id,
        "name": job.name,
        "status": "running",
        "error": None,
        "varied": job.varied,
        "settings": job.settings,
    }
    return record | {
        "hardsplat": __version__,
        "commit": None,
        "started": None,
        "seconds": None,
        "metrics": None,
        "gradients": None,
    }


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
    """The folder of a job below `runs`, whatever the sweep was called that made it, and its record;
    where there is none, the folder that it gets, and None.

    A run counts as this job's where all its settings and the version of hardsplat are the same.
    Others keep their folders.
    """
    folders = [
        folder
        for folder in sorted(runs.glob(f"*-{job.id}*"))
        if re.fullmatch(f".*-{job.id}(-[0-9]+)?", folder.name)
    ]
    broken = None
    for folder in folders:
        record = read(folder)
        if record is None:
            broken = broken or folder
        elif not difference(record, job):
            return folder, record
    numbered = (runs / f"{job.name}-{n}" for n in itertools.count(2))
    return broken or next(
        folder for folder in itertools.chain([runs / job.name], numbered) if folder not in folders
    ), None


def difference(record: dict, job: Job) -> str:
    """What a record has that the job has not, in words; nothing where they are of one run. A
    setting that the program got since counts as its default."""
    if record["hardsplat"] not in (None, __version__):
        return f"of hardsplat {record['hardsplat']}"
    before, now = record["settings"], job.settings
    names = [n for n in {**before, **now} if before.get(n, _default(n)) != now.get(n, _default(n))]
    return ", ".join(
        f"{n} {before.get(n, _default(n))}, now {now.get(n, _default(n))}" for n in names
    )


def _default(name: str):
    value = FIELDS[name].default if name in FIELDS else None
    return list(value) if isinstance(value, tuple) else value
