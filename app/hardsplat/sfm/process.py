"""The process in which pycolmap works: started, listened to and ended with the command, which runs
this file again, `process.py FOLDER`, where the job lies.

What the worker tells leaves as lines of JSON: the name of a method of StageProgress, or `result` or
`error`, and what it is given. What libraries print goes to the log, which is its stderr.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import replacing
from hardsplat.base.paths import PACKAGE
from hardsplat.base.progress import Bar
from hardsplat.sfm.job.state import State

JOB, LOG = "job.json", "log.txt"
WORKER = __file__


def require_pycolmap() -> None:
    """Raises UserError where it is not installed."""
    if importlib.util.find_spec("pycolmap") is None:
        how = 'pip install "hardsplat[sfm]", or pip install pycolmap'
        raise UserError(f"pycolmap is not installed, which finds the poses: {how}")


class StageProgress:
    """A bar for each stage, and a line when the next one begins. spent: seconds by stage."""

    def __init__(self, quiet: bool):
        self._quiet, self._bar, self._began = quiet, Bar(disable=True), 0.0
        self.spent: dict[str, float] = {}

    def say(self, text: str) -> None:
        if not self._quiet:
            tqdm.write(text)

    def begin(self, stage: str, total: int, done: int = 0) -> None:
        self.end()
        # each pose takes longer than the one before, and adjusting them all comes after the last
        self._bar = Bar(
            total=total,
            initial=done,
            desc=stage,
            even=stage != "poses",
            unit="",
            leave=False,
            disable=self._quiet,
        )
        self._stage, self._total, self._began = stage, total, time.monotonic()

    def at(self, done: int, total: int | None = None) -> None:
        self._bar.total = total or self._bar.total
        self._bar.update(done - self._bar.n)

    def phase(self, text: str) -> None:
        self._bar.set_postfix_str(text, refresh=sys.stderr.isatty())  # no line for each in a log

    def end(self, total: int | None = None) -> None:
        """Ends the stage that is on. total: of what there was, where that was not known before."""
        if self._began:
            seconds = time.monotonic() - self._began
            self.spent[self._stage] = self.spent.get(self._stage, 0) + seconds
            self.close()
            self.say(f"{self._stage:<10} {total or self._total} in {Bar.format_interval(seconds)}")

    def close(self) -> None:
        self._bar.close()
        self._began = 0.0


def work(job: dict[str, Any], folder: Path, progress: StageProgress) -> dict[str, Any]:
    """Runs the job in a worker; its result. folder: where job and log go. A worker that dies of
    what it tries is followed by one that goes another way.

    Raises UserError with what the worker says, or where it ends without a word. Whatever interrupts
    this also ends the worker.
    """
    log = folder / LOG
    log.unlink(missing_ok=True)
    State(folder).put(trying="")  # what was interrupted did not fail
    with replacing(folder / JOB) as partial:
        partial.write_text(json.dumps(job), encoding="utf-8")
    while isinstance(ended := _run(folder, progress), int):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        what = f"ended with {ended}: {(lines or ['no message'])[-1][:200]}"
        if not (tried := State(folder).note_crash(what)):
            where = f"(see {log}); the same command continues where it stopped"
            raise UserError(f"the process that finds the poses {what} {where}")
        progress.say(f"note: {tried}: the process {what}; going on without (see {log})")
    return ended


def _run(folder: Path, progress: StageProgress) -> dict[str, Any] | int:
    """The result of one worker; the exit status of one that ends without."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1")  # the worker has a thread a core
    paths = filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with (
        open(folder / LOG, "ab") as said,
        subprocess.Popen(
            [sys.executable, "-P", WORKER, str(folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for us, who then end it
        ) as process,
    ):
        try:
            for line in process.stdout:  # type: ignore[union-attr]  # it is a pipe
                what, *args = json.loads(line)
                if what == "result":
                    progress.end()
                    return args[0]
                if what == "error":
                    raise UserError(args[0])
                getattr(progress, what)(*args)
            return process.wait()  # what it prints last goes to the log first
        finally:
            progress.close()
            process.kill()


def main(folder: Path) -> None:
    """The worker. It ends at once when its input closes: who started it is gone."""
    import cv2

    from hardsplat.sfm.colmap.job import PoseJob

    faulthandler.enable()
    cv2.setNumThreads(1)  # the job's pool has a thread a core
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not fall among the messages
    threading.Thread(target=lambda: os._exit(len(os.read(0, 1))), daemon=True).start()

    def send(*message) -> None:
        print(json.dumps(message), file=out, flush=True)

    try:
        send("result", PoseJob(json.loads((folder / JOB).read_text("utf-8")), send).run())
    except UserError as error:
        send("error", str(error))
    except OSError as error:
        send("error", f"{error.filename or folder}: {error.strerror or error}")
    except Exception as error:  # COLMAP's failed checks are of many types
        traceback.print_exc()
        said = f"{type(error).__name__}: {reason(error)}; all it said is in {folder / LOG}"
        send("error", f"COLMAP failed: {said}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
