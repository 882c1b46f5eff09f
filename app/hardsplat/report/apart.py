"""The report of a run, made by a process of its own: plots and viewers are much Python, for which the threads that measure and write files would have to wait.

The process is started while the run trains, imports what it needs, and waits for calls of Maker's methods, which it gets through a pipe. It ends with its parent.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from hardsplat.errors import UserError

_PIPE_BYTES = 1 << 20
log = logging.getLogger("hardsplat")


class Apart:
    """A Maker in another process, with the same methods. Where that process cannot be started or fails, this one makes the report."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, tuple]] = []
        self._process = _start()

    def viewer(self, *args) -> None:
        self._call("viewer", *args)

    def picture(self, *args) -> None:
        self._call("picture", *args)

    def plots(self, *args) -> None:
        self._call("plots", *args)

    def report(self, *args) -> str | None:
        """See Maker.report. Waits."""
        self._call("report", *args)
        try:
            done, outcome = self._answer()
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError):  # no process, or one that died
            log.debug("the process for the report failed; it is made here")
            return self._here()
        if not done:
            raise UserError(outcome)
        return outcome

    def _call(self, *call: Any) -> None:
        self._calls.append((call[0], call[1:]))
        if self._process:
            try:
                pickle.dump(call, self._process.stdin, protocol=5)  # type: ignore[arg-type]
                self._process.stdin.flush()  # type: ignore[union-attr]
            except (OSError, ValueError):
                self.close()

    def _answer(self) -> tuple[bool, str | None]:
        return pickle.load(self._process.stdout)  # type: ignore[union-attr,arg-type]  # None raises AttributeError

    def _here(self) -> str | None:
        from hardsplat.report.maker import Maker

        maker = Maker()
        try:
            for name, args in self._calls:
                outcome = getattr(maker, name)(*args)
        finally:
            maker.close()
        return outcome

    def close(self) -> None:
        """Ends the process. May be called again."""
        process, self._process = self._process, None
        if process:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            process.wait()


def _start() -> subprocess.Popen | None:
    """python -P: no module of the current folder takes the place of another. A session of its own, so that the parent alone answers Ctrl-C."""
    source = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    except OSError:
        return None
    with suppress(ImportError, OSError, AttributeError):  # Linux alone
        import fcntl

        fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # type: ignore[arg-type]
    return process


def serve(calls: IO[bytes], answers: IO[bytes]) -> None:
    """What the process does: calls until `report`, whose outcome is the answer. EOFError at the end of `calls`."""
    from hardsplat.report.maker import Maker

    maker = Maker()
    maker.warm()
    while True:
        name, *args = pickle.load(calls)
        try:
            answer = True, getattr(maker, name)(*args)
        except UserError as error:
            answer = False, str(error)
        if name == "report":
            pickle.dump(answer, answers)
            answers.flush()
            return


if __name__ == "__main__":
    with suppress(EOFError, OSError):
        serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # what threads may still be at is for nobody
