"""Files that are whole or not there."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from hardsplat.base.errors import UserError

# what file systems answer that cannot sync folders
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EACCES, errno.EPERM)
_SHORT = 220  # after which .photo.png.1234567.part may follow
_WRITTEN: set[Path] = set()  # by `replacing` in this process


def check_free(path: Path, overwrite: bool) -> None:
    """UserError where a file is there that no one asked to replace, or its folder is there and
    takes no files."""
    if path.exists() and not overwrite:
        raise UserError(f"{path}: exists; add --overwrite to replace it")
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise UserError(f"cannot write {path}: no files can be made in {path.parent}")


def check_listed(folder: Path) -> None:
    """UserError where a folder cannot be listed: what walks over it takes it for an empty one."""
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None


def check_ends(path: Path) -> None:
    """UserError where a path, or what it links to, is a pipe, a socket or a device: reading may
    never end. What is missing is for its reader to say."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UserError(f"{path}: is a pipe or a device, not a file")


def json_of(text: str | bytes) -> Any:
    """What JSON text says. ValueError where it is none, and where it is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def short_name(name: str) -> str:
    """A path, with slashes, each part of which leaves room for endings in a file's name: what is
    too long ends in a hash of it."""
    return "/".join(_shortened(part) for part in name.split("/"))


def _shortened(part: str) -> str:
    data = os.fsencode(part)
    if len(data) <= _SHORT:
        return part
    mark = hashlib.blake2b(data, digest_size=6).hexdigest()
    return f"{data[: _SHORT - 13].decode(errors='ignore')}~{mark}"


def changed_at(path: Path) -> int:
    """When a file was last changed; 0 where that is not known, of which its reader says why."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def ensure_folder(folder: Path) -> None:
    """Makes a folder and those above it, where they are missing; raises OSError."""
    for part in (folder, *folder.parents):
        if part.exists() and not part.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{part} is a file, not a folder")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Where to write what takes the place of `path` at the end: a crash leaves the old file or the
    new one. Makes the folder; raises OSError.

    durable: a power loss does too. The file's bytes reach the disk before its name does, then the
    name, which takes some 7 ms a file (docs/results/files.md); pictures that can be drawn again do
    without. What processes that were killed left of the file goes first.
    """
    ensure_folder(path.parent)
    if durable:
        remove_parts(path)
    with _partial_of(path) as partial:
        yield partial
        if durable:
            _sync(partial)
        os.replace(partial, path)
    if durable:
        _sync_folder(path.parent)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """The folder that takes the place of `folder` at the end, which until then is as it was. What
    processes that were killed left of it goes first. Raises OSError."""
    ensure_folder(folder.parent)
    remove_parts(folder)
    with _partial_of(folder) as partial:
        partial.mkdir()
        yield partial
        old = partial.with_name(f"{short_name(folder.name)}.old.{os.getpid()}.part")
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _partial_of(path: Path) -> Iterator[Path]:
    """The name under which it is written, where nothing is left when an error ends that."""
    partial = path.with_name(f"{short_name(path.name)}.{os.getpid()}.part")
    _WRITTEN.add(partial.resolve())
    try:
        yield partial
    except BaseException:
        _remove(partial)
        raise
    finally:
        _WRITTEN.discard(partial.resolve())


def _remove(partial: Path) -> None:
    if partial.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Turns an OSError within into the UserError that this file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def write_json(path: Path, table: dict, durable: bool = True) -> None:
    """durable: see replacing. Raises UserError when the file cannot be written."""
    with written(path), replacing(path, durable) as partial:
        partial.write_text(json.dumps(table, indent=1) + "\n")


def sync_later(*paths: Path) -> None:
    """Has a process of its own sync files that were written without, and ends before it does: a
    disk takes some 10 s a GB (docs/results/files.md). A file that is gone is left out."""
    command = [sys.executable, "-I", "-S", "-c", _SYNC, *map(str, paths)]
    none = subprocess.DEVNULL
    with suppress(OSError, TypeError):  # without it the system writes them within half a minute
        subprocess.Popen(command, stdin=none, stdout=none, stderr=none, start_new_session=True)


_SYNC = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.fsync(os.open(path, os.O_RDONLY))
    except OSError:
        pass
"""


def remove_abandoned(folder: Path) -> None:
    """Deletes what `replacing` began to write below a folder in processes of this machine that are
    gone. What cannot be deleted stays."""
    _remove_abandoned(folder.rglob("*.part"))


def remove_parts(path: Path) -> None:
    """As `remove_abandoned`, of what was to become one file or folder."""
    _remove_abandoned(path.parent.glob(f"{glob.escape(short_name(path.name))}.*.part"))


def _remove_abandoned(partials: Iterable[Path]) -> None:
    for partial in list(partials):
        pid = partial.suffixes[-2][1:] if len(partial.suffixes) > 1 else ""
        if pid.isdigit() and not _writes(int(pid), partial):
            _remove(partial)


def _writes(pid: int, partial: Path) -> bool:
    """Whether a process that may write this file is there."""
    if pid == os.getpid():
        return partial.resolve() in _WRITTEN
    if os.name == "nt":  # where signal 0 ends a process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        pass
    return True


class Behind:
    """A file that is written by a thread, while the caller prepares what comes next. Bytes must
    stay as they are until the next call, which raises what went wrong."""

    def __init__(self, file: BinaryIO):
        self._file, self._thread = file, ThreadPoolExecutor(1)
        self._writing: Future[int] | None = None

    def write(self, data: bytes | memoryview) -> int:
        self._wait()
        self._writing = self._thread.submit(self._file.write, data)
        return memoryview(data).nbytes

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def tell(self) -> int:
        self._wait()
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._wait()
        return self._file.seek(offset, whence)

    def flush(self) -> None:
        self._wait()
        self._file.flush()

    def close(self) -> None:
        """Leaves the file itself open."""
        try:
            self._wait()
        finally:
            self._thread.shutdown()


def _sync(path: Path, how: int = os.O_RDWR) -> None:
    """how: of os.open; Windows syncs no file that is open for reading alone."""
    descriptor = os.open(path, how)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Names are the folder's bytes. Windows has no such call, and some network file systems refuse
    it."""
    try:
        if os.name != "nt":
            _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
