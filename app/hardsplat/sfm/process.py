"""The worker's process, seen from the command: it is started, listened to, shown, and ended with
the command."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing
from hardsplat.base.paths import PACKAGE
from hardsplat.base.progress import Bar
from hardsplat.sfm.job.plan import spoken
from hardsplat.sfm.job.state import State

JOB, LOG = "job.json", "log.txt"
WORKER = str(Path(__file__).with_name("worker.py"))


def require_pycolmap() -> None:
    """Raises UserError where it is not installed."""
    if importlib.util.find_spec("pycolmap") is None:
        how = 'pip install "hardsplat[sfm]", or pip install pycolmap'
        raise UserError(f"pycolmap is not installed, which finds the poses: {how}")


class StageProgress:
    """A bar for each stage, and a line when one ends. The worker's messages are calls of these
    methods."""

    def __init__(self, quiet: bool):
        self._quiet, self._bar = quiet, Bar(disable=True)
        self.spent: dict[str, float] = {}

    def say(self, text: str) -> None:
        if not self._quiet:
            tqdm.write(text)

    def begin(self, stage: str, total: int, done: int = 0) -> None:
        self.close()
        how = dict(unit="", leave=False, disable=self._quiet)
        self._bar = Bar(total=total, initial=done, desc=stage, **how)

    def at(self, done: int, total: int | None = None) -> None:
        self._bar.total = total or self._bar.total
        self._bar.update(done - self._bar.n)

    def phase(self, text: str) -> None:
        self._bar.set_postfix_str(text, refresh=sys.stderr.isatty())  # no line for each in a log

    def end(self, stage: str, total: int, seconds: float) -> None:
        """Ends a stage. seconds: 0 where nothing was left to do, about which nothing is printed."""
        self.close()
        self.spent[stage] = self.spent.get(stage, 0) + seconds
        if seconds:
            self.say(f"{stage:<10} {total} in {spoken(seconds)}")

    def close(self) -> None:
        self._bar.close()


def work(job: dict[str, Any], folder: Path, progress: StageProgress) -> dict[str, Any]:
    """Runs the job in a worker; its result. folder: where job and log go. A worker that dies of
    what it tries is followed by one that goes another way.

    Raises UserError with what the worker says, or where it ends without a word. Whatever interrupts
    this also ends the worker.
    """
    log = folder / LOG
    State(folder).put(trying="")  # what was interrupted did not fail
    with replacing(folder / JOB) as partial:
        partial.write_text(json.dumps(job), encoding="utf-8")
    while True:
        ended = _run(folder, progress)
        if isinstance(ended, dict):
            return ended
        what = f"ended with {ended}: {_last_line(log)}"
        if not (tried := State(folder).note_crash(what)):
            break
        progress.say(f"note: {tried}: the process {what}; going on without (see {log})")
    where = f"(see {log}); the same command continues where it stopped"
    raise UserError(f"the process that finds the poses {what} {where}")


def _run(folder: Path, progress: StageProgress) -> dict[str, Any] | int:
    """The result of one worker; the exit status of one that ends without."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1")  # the worker has a thread a core
    paths = filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    # a session of its own: Ctrl-C is for us, who then end it
    how: dict[str, Any] = dict(env=environment, start_new_session=True)
    how |= dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    command = [sys.executable, WORKER, str(folder)]
    with open(folder / LOG, "ab") as said, subprocess.Popen(command, **how, stderr=said) as process:
        try:
            for line in process.stdout:  # type: ignore[union-attr]  # it is a pipe
                what, *args = json.loads(line)
                if what == "result":
                    return args[0]
                if what == "error":
                    raise UserError(args[0])
                getattr(progress, what)(*args)
            return process.wait()  # what it prints last goes to the log first
        finally:
            progress.close()
            process.kill()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no message"
