"""The report of a run, made by two processes of its own, one for plots and page, one for the
viewer. They are much Python, for which the threads that measure and write files would have to wait,
and each other.

The processes are started while the run trains, import what they need, and wait for calls of Maker's
methods, which they get through pipes. They end with their parent.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from hardsplat.base.errors import UserError

SWITCHING = 5e-4  # s until Python hands over to a thread that waits for it
_PIPE_BYTES = 1 << 20
# of a process that could not be started or died
_FAILED = (OSError, EOFError, ValueError, AttributeError, pickle.PickleError)
_ASKED = ("html", "page")  # whose outcome is sent back
log = logging.getLogger("hardsplat")


class ReportProcesses:
    """A Maker in other processes, with the same methods. Where one cannot be started or fails, this
    one makes the report."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, tuple]] = []
        self._processes = {"viewer": _start("viewer"), "plots": _start("plots")}

    def viewer(self, *args) -> None:
        self._call("viewer", "viewer", *args)

    def picture(self, *args) -> None:
        self._call("viewer", "picture", *args)

    def plots(self, *args) -> None:
        self._call("plots", "plots", *args)

    def report(
        self, folder: Path, metrics: dict, comparisons: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> str | None:
        """See Maker.report. Waits."""
        try:
            self._send("plots", "draw", folder, metrics, comparisons)
            self._send("viewer", "html")
            html = self._answer("viewer")
            self._send("plots", "page", folder, html)
            return self._answer("plots")
        except _FAILED as error:
            failed = "the process that was to make the report failed"
            log.info("note: %s (%s); it is made here", failed, type(error).__name__)
            return self._here(folder, metrics, comparisons)

    def _call(self, process: str, *call: Any) -> None:
        self._calls.append((call[0], call[1:]))
        with suppress(*_FAILED):  # told by `report`
            self._send(process, *call)

    def _send(self, process: str, *call: Any) -> None:
        pipe = self._processes[process].stdin  # type: ignore[union-attr]  # None raises AttributeError
        # follow the rest as they are, so that they are copied once at most
        arrays: list[pickle.PickleBuffer] = []
        words = pickle.dumps(call, protocol=5, buffer_callback=arrays.append)
        pickle.dump((words, [array.raw().nbytes for array in arrays]), pipe)  # type: ignore[arg-type]
        for array in arrays:
            pipe.write(array.raw())  # type: ignore[union-attr]
        pipe.flush()  # type: ignore[union-attr]

    def _answer(self, process: str) -> str | None:
        done, outcome = pickle.load(self._processes[process].stdout)  # type: ignore[union-attr,arg-type]
        if not done:
            raise UserError(outcome)
        return outcome

    def _here(self, *args) -> str | None:
        from hardsplat.report.maker import Maker

        maker = Maker()
        try:
            for name, given in self._calls:
                getattr(maker, name)(*given)
            return maker.report(*args)
        finally:
            maker.close()

    def close(self) -> None:
        """Ends the processes. May be called again."""
        for process in filter(None, self._processes.values()):
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            process.wait()


def _start(part: str) -> subprocess.Popen | None:
    """python -P: no module of the current folder takes the place of another. A session of its own,
    so that the parent alone answers Ctrl-C."""
    # it imports what this one would, however that came about
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)])
    # threads of ours call OpenBLAS; its own would be in their way
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path}
    pipes: dict = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    own: dict = pipes | dict(stderr=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        process = subprocess.Popen([sys.executable, "-P", "-m", __name__, part], **own)
    except OSError:
        return None
    with suppress(ImportError, OSError, AttributeError):  # Linux alone
        import fcntl

        fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # type: ignore[arg-type]
    return process


def serve(part: str, calls: IO[bytes], answers: IO[bytes]) -> None:
    """What a process does: calls, until there are no more, which raises EOFError."""
    from hardsplat.report.maker import Maker

    sys.setswitchinterval(SWITCHING)
    maker = Maker()
    maker.warm() if part == "plots" else maker.warm_viewer()
    while True:
        name, *args = _received(calls)
        try:
            answer = True, getattr(maker, name)(*args)
        except UserError as error:
            answer = False, str(error)
        if name in _ASKED:
            pickle.dump(answer, answers)
            answers.flush()


def _received(calls: IO[bytes]) -> tuple:
    """What ReportProcesses._send sent."""
    words, sizes = pickle.load(calls)
    arrays = [np.empty(size, np.uint8) for size in sizes]
    for array in arrays:
        rest = memoryview(array)  # type: ignore[arg-type]  # numpy's stubs before 3.12
        while rest.nbytes:
            if not (count := calls.readinto(rest)):  # type: ignore[attr-defined]  # of a BufferedReader
                raise EOFError
            rest = rest[count:]
    return pickle.loads(words, buffers=arrays)


if __name__ == "__main__":
    with suppress(EOFError, OSError):
        serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # what threads may still do is of no use
