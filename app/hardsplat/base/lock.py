"""One process at a time in a result folder."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from hardsplat.base.errors import UserError

NAME = ".lock"


class FolderLock:
    """Holds a folder until `release`, or until the process ends, however it does. Where the file
    system knows no locks, nothing is held.

    Raises UserError that names the process which holds it.
    """

    def __init__(self, folder: Path):
        self.path = folder / NAME
        self._file: int | None = None
        while self._file is None:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                why = f"cannot write to the folder {folder}: {error.strerror}"
                raise UserError(f"{why}; choose another --result-dir") from None
            try:
                locked = _lock(file)
                # else its holder deleted it meanwhile
                if locked and os.path.samestat(os.fstat(file), os.stat(self.path)):
                    self._file = file
            except BlockingIOError:
                who = os.read(file, 4096).decode("utf-8", "replace").strip() or "another process"
                advice = "wait for its end, end it, or choose another --result-dir"
                raise UserError(f"{folder} is in use by {who}; {advice}") from None
            except FileNotFoundError:
                continue
            finally:
                if self._file is None:
                    os.close(file)
            if not locked:
                self.path.unlink(missing_ok=True)
                return
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        began = datetime.now().isoformat(" ", "minutes")
        about = f"process {os.getpid()} on {socket.gethostname()}, begun {began}: {command}"
        os.ftruncate(self._file, 0)
        os.write(self._file, about.encode("utf-8", "replace")[:4096])

    def release(self) -> None:
        """May be called again."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def _lock(file: int) -> bool:
    """Locks an open file. False where the file system or the system has no locks; raises
    BlockingIOError where another process has it."""
    with suppress(ImportError):  # Windows has none
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except (BlockingIOError, PermissionError):  # EACCES, which some systems answer for EAGAIN
            raise BlockingIOError from None
        except OSError:
            return False
    return False
