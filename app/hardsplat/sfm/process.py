"""The worker's process, seen from the command: it is started, listened to, shown, and ended with
the command."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.base.paths import PACKAGE
from hardsplat.sfm.job.plan import spoken
from hardsplat.sfm.job.state import State

LOG = "log.txt"
WORKER = str(Path(__file__).with_name("worker.py"))
_SHOWN = {"similar": "comparing"}


def require_pycolmap() -> None:
    """Raises UserError where it is not installed."""
    if importlib.util.find_spec("pycolmap") is None:
        how = 'pip install "hardsplat[sfm]", or pip install pycolmap'
        raise UserError(f"pycolmap is not installed, which finds the poses: {how}")


class StageProgress:
    """Bars on a terminal, one for each stage, and a line when a stage ends. intention: said before
    the first that has work to do."""

    def __init__(self, quiet: bool, intention: str = ""):
        self._quiet, self._intention = quiet, intention
        self._bar, self._total = None, 1
        self.spent: dict[str, float] = {}

    def say(self, text: str) -> None:
        if not self._quiet:
            tqdm.write(text)

    def begin(self, stage: str, total: int, done: int = 0) -> None:
        self.close()
        if done < total and self._intention:
            self.say(self._intention)
            self._intention = ""
        self._total = total
        how = dict(initial=done, unit="", leave=False, disable=True if self._quiet else None)
        self._bar = tqdm(total=total, desc=_SHOWN.get(stage, stage), **how)

    def at(self, done: int, total: int | None = None) -> None:
        if self._bar is not None:
            self._bar.total = total or self._bar.total
            self._bar.update(done - self._bar.n if not self._bar.disable else 0)

    def phase(self, text: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def end(self, stage: str, seconds: float) -> None:
        """Ends a stage. seconds: 0 where nothing was left to do, about which nothing is printed."""
        self.close()
        self.spent[stage] = self.spent.get(stage, 0) + seconds
        if seconds and stage != "similar":
            self.say(f"{stage:<10} {self._total} in {spoken(seconds)}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def work(job: dict[str, Any], folder: Path, progress: StageProgress) -> dict[str, Any]:
    """Runs the job in a worker; its result. folder: where the log goes. A worker that dies of what
    it tries is followed by one that goes another way.

    Raises UserError with what the worker says, or where it ends without a word. Whatever interrupts
    this also ends the worker.
    """
    log = folder / LOG
    State(folder).put("trying", None)  # what was interrupted did not fail
    while True:
        ended = _run(job, log, progress)
        if isinstance(ended, dict):
            return ended
        what = f"ended with {ended}: {_last_line(log)}"
        if not (tried := State(folder).note_crash(what)):
            break
        progress.say(f"note: {tried}: the process {what}; going on without (see {log})")
    where = f"(see {log}); the same command continues where it stopped"
    raise UserError(f"the process that finds the poses {what} {where}")


def _run(job: dict[str, Any], log: Path, progress: StageProgress) -> dict[str, Any] | int:
    """The result of one worker; the exit status of one that ends without."""
    with open(log, "ab") as said:
        threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(threads, "1")  # the worker has a thread a core
        paths = filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        # a session of its own: Ctrl-C is for us, who then end it
        pipes: dict[str, Any] = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        command = [sys.executable, WORKER]
        process = subprocess.Popen(command, **pipes, start_new_session=True, env=environment)
    stdin, stdout = process.stdin, process.stdout
    try:
        if stdin is None or stdout is None:
            raise RuntimeError("Popen made no pipes")
        stdin.write(json.dumps(job | {"log": str(log)}).encode() + b"\n")
        stdin.flush()
        for line in stdout:
            message = json.loads(line)
            if "result" in message:
                return message["result"]
            if "error" in message:
                raise UserError(message["error"])
            _show(message, progress)
        process.wait()  # it said nothing more: what it prints last goes to the log first
    except BrokenPipeError:
        process.wait()  # it ended at once; the log says why
    finally:
        progress.close()
        _end(process)
    return process.returncode


def _show(message: dict[str, Any], progress: StageProgress) -> None:
    if "stage" in message:
        progress.begin(message["stage"], message["total"], message["done"])
    elif "end" in message:
        progress.end(message["end"], message["seconds"])
    elif "phase" in message:
        progress.phase(message["phase"])
    elif "done" in message:
        progress.at(message["done"])
    elif "note" in message:
        progress.say(f"note: {message['note']}")


def _end(process: subprocess.Popen) -> None:
    """It ends when its input closes; where it does not, it is made to."""
    closed = [process.stdin.close] if process.stdin else []
    for stop in (*closed, process.terminate, process.kill):
        with suppress(OSError):
            stop()
        with suppress(subprocess.TimeoutExpired):
            process.wait(3)
            break
    process.wait()
    if process.stdout:
        process.stdout.close()


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no message"
