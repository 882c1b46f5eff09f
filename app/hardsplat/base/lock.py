"""One process at a time in a result folder."""

from __future__ import annotations

import errno
import os
import shlex
import socket
import sys
from datetime import datetime
from pathlib import Path

from hardsplat.base.errors import UserError

NAME = ".lock"
_HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


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
                raise UserError(
                    f"cannot write to the folder {folder}: {error.strerror}; choose "
                    "another --result-dir"
                ) from None
            try:
                if not _locked(file):
                    break
                if os.fstat(file).st_ino == (
                    os.stat(self.path).st_ino if self.path.exists() else None
                ):  # else its holder deleted it meanwhile
                    self._file = file
                    break
            except _InUse:
                who = os.read(file, 4096).decode("utf-8", "replace").strip()
                raise UserError(
                    f"{folder} is in use by {who or 'another process'}; wait for its end, "
                    "end it, or choose another --result-dir"
                ) from None
            finally:
                if self._file is None:
                    os.close(file)
        if self._file is None:
            self.path.unlink(missing_ok=True)
        else:
            started = datetime.now().isoformat(" ", "minutes")
            about = (
                f"process {os.getpid()} on {socket.gethostname()}, begun {started}: "
                f"{shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}"
            )
            os.ftruncate(self._file, 0)
            os.write(self._file, about.encode("utf-8", "replace")[:4096])

    def release(self) -> None:
        """May be called again."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


class _InUse(Exception):
    pass


def _locked(file: int) -> bool:
    """Locks an open file. False where the file system or the system has no locks; raises _InUse
    where another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise _InUse from None
        return False
    return True
