"""Work on other processes and machines: a child process that saves and ends when its parent goes,
and workers, one for each device: threads on this machine, where all that they do is wait for a
child, and those of a Dask cluster.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.base.progress import IS_LINE

_running: set[subprocess.Popen] = set()
_own = threading.local()  # `device` of a thread that is a worker
_GLANCE = 0.2  # seconds between reads of what a child prints
ANSWER = "30s"  # until a scheduler must have answered
RESOURCE = "device"  # of a Dask worker: one task at a time


def run_child(module: str, folder: Path, device: str | None, show: bool) -> int:
    """Runs `python -m module FOLDER` to its end, and returns the exit code; 130 where it was asked
    to end before.

    device: by default that of the worker that this runs on, or of HARDSPLAT_DEVICE. What it prints
    is in FOLDER/log.txt. show: its progress appears on stderr too.
    """
    device = device or getattr(_own, "device", None)
    environment = os.environ | ({"HARDSPLAT_DEVICE": device} if device else {})
    command = [sys.executable, "-m", module, str(folder), *([] if show else ["--quiet"])]
    code, asked, rest = None, False, ""
    # Output goes to a file, not a pipe, which would break with us; a session of its own: the
    # terminal's Ctrl-C reaches the child through us, once.
    path = folder / "log.txt"
    with open(path, "ab") as log, open(path, encoding="utf-8", errors="replace") as printed:
        printed.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            command,
            env=environment,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _running.add(child)
        try:
            while code is None:
                with suppress(subprocess.TimeoutExpired):
                    code = child.wait(_GLANCE)
                if show:
                    *lines, rest = (rest + printed.read()).split("\n")
                    sys.stderr.writelines(f"{line}\n" for line in filter(IS_LINE.match, lines))
                    sys.stderr.flush()
        finally:
            _running.discard(child)
            if child.stdin:
                asked = child.stdin.closed
                child.stdin.close()
    return 130 if asked else code


def stop_children() -> None:
    """Has the children of this process save and end."""
    for child in list(_running):
        if child.stdin:
            child.stdin.close()


async def _finish(keys: Collection[str], dask_worker) -> None:
    """On a worker: has the child of one of these tasks save and end, and waits for that."""
    while any(task.key in keys for task in dask_worker.state.executing):
        stop_children()  # which may have started just now
        await asyncio.sleep(0.1)


def how_it_ended(code: int, folder: Path) -> str:
    """A line on a child that ended without saying why."""
    signalled = code < 0 and f"by signal {-code} ({signal.Signals(-code).name})"
    return f"the process ended {signalled or f'with exit code {code}'}; see {folder / 'log.txt'}"


def as_child(work: Callable[[Path, str | None, bool], int]) -> int:
    """The body of a module that `run_child` runs; the exit code of work(folder, device, quiet).

    The process is interrupted when standard input ends: its parent may be gone.
    """

    def watch():
        while os.read(0, 1 << 10):  # not sys.stdin, whose lock the interpreter wants at its end
            pass
        os.kill(os.getpid(), signal.SIGINT)

    # a shell's background jobs ignore it, and so would this
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=watch, daemon=True).start()
    quiet = sys.argv[2:] == ["--quiet"]
    logging.basicConfig(format="%(message)s")
    logging.getLogger("hardsplat").setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        return work(Path(sys.argv[1]), os.environ.get("HARDSPLAT_DEVICE") or None, quiet)
    except KeyboardInterrupt:
        return 130


def on_workers(
    work: Callable[..., Any],
    tasks: Sequence[tuple],
    devices: Sequence[str | None],
    scheduler: str | None,
) -> Iterator[tuple[int, Any]]:
    """(number of a task, what work(*task) returned or the exception it raised) as tasks end.

    They are done by a thread for each of `devices`, whose children save and end when Ctrl-C or who
    asks ends this, and at once at a second Ctrl-C; or by the workers of the Dask cluster at
    `scheduler`, which see the same files. There a task whose worker dies is done by another one,
    three times at most. Raises UserError where distributed is not installed, or no worker of the
    cluster offers a device.
    """
    if scheduler:
        yield from _on_cluster(work, tasks, scheduler)
        return
    free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for device in devices:
        free.put(device)
    threads = ThreadPoolExecutor(
        len(devices), initializer=lambda: setattr(_own, "device", free.get())
    )
    futures: dict[Future, int] = {}
    try:
        for number, task in enumerate(tasks):
            futures[threads.submit(work, *task)] = number
        for future in as_completed(futures):
            yield futures[future], _outcome(future)
    except BaseException:  # Ctrl-C, or whoever asks has enough
        threads.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in futures):
            stop_children()  # which may have started just now
            try:
                time.sleep(0.1)
            except KeyboardInterrupt:  # another one
                for child in list(_running):
                    child.kill()
        raise
    finally:
        threads.shutdown()


def _on_cluster(
    work: Callable[..., Any], tasks: Sequence[tuple], scheduler: str
) -> Iterator[tuple[int, Any]]:
    with _connected(scheduler) as client:
        from distributed import as_completed

        if client.scheduler_info()["services"].get("dashboard"):
            tqdm.write(f"Dask's dashboard: {client.dashboard_link}")
        takes = {RESOURCE: 1}
        futures = {
            client.submit(work, *task, pure=False, resources=takes): n
            for n, task in enumerate(tasks)
        }
        try:
            for future in as_completed(futures):
                yield futures[future], _outcome(future)
        except BaseException:
            client.cancel(list(futures))  # those that have not started
            client.run(_finish, {future.key for future in futures})
            raise


def ask_workers(question: Callable[..., Any], args: tuple, scheduler: str) -> dict[str, Any]:
    """What question(*args) returns on each worker with a device, or the exception that it raised,
    by the worker's address. Raises UserError as `on_workers` does."""
    with _connected(scheduler) as client:
        return client.run(question, *args, workers=_with_device(client), on_error="return")


def _with_device(client) -> list[str]:
    """Addresses of the workers that offer a device."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, w in workers.items() if w.get("resources", {}).get(RESOURCE)]


@contextmanager
def _connected(scheduler: str):
    """A client of the cluster. Raises UserError as `on_workers` does."""
    # here and in workers: the rest is of no use to people
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    try:
        from distributed import Client
    except ImportError:
        install = "pip install 'hardsplat[dask]'"
        raise UserError(f"a cluster needs the package distributed: {install}") from None
    try:
        client = Client(scheduler, timeout=ANSWER)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"{scheduler}: no Dask scheduler answers there ({error})") from None
    try:
        if not _with_device(client):
            worker = f"dask worker {scheduler} --nthreads 1 --resources {RESOURCE}=1"
            start = f"start them with: HARDSPLAT_DEVICE=0 {worker}"
            raise UserError(f"no worker at {scheduler} offers a device; {start}")
        yield client
    finally:
        client.close()


def _outcome(future) -> Any:
    try:
        return future.result()
    except Exception as error:  # of the task, or of its worker
        return error
