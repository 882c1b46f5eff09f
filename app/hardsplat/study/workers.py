"""Work on other processes and machines: a child process that saves and ends when its parent goes,
and the workers of a Dask cluster, one for each device.

Workers of this machine are threads of the command, since all that they do is wait for a child. They
start in 0.1 s, processes of Dask take 3 s.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hardsplat.base.errors import UserError

_running: set[subprocess.Popen] = set()
_own = threading.local()  # `device` of a thread that is a worker
_GLANCE = 0.2  # seconds between reads of what a child prints
ANSWER = "30s"  # until a scheduler must have answered
_HERE = "127.0.0.1"
RESOURCE = "device"  # of a Dask worker: one task at a time


def run_child(
    module: str, folder: Path, device: str | None, show: bool
) -> tuple[int, KeyboardInterrupt | None]:
    """Runs `python -m module FOLDER` to its end: the exit code, and a Ctrl-C that came. The first
    one asks the child to save and end, a second one kills it.

    device: by default that of the worker that this runs on, or of HARDSPLAT_DEVICE. show: what it
    prints appears on stderr too, besides FOLDER/log.txt.
    """
    device = device or getattr(_own, "device", None)
    environment = os.environ | ({"HARDSPLAT_DEVICE": device} if device else {})
    command = [sys.executable, "-m", module, str(folder), *([] if show else ["--quiet"])]
    code, interrupted = None, None
    text = codecs.getincrementaldecoder("utf-8")("replace").decode
    # Output goes to a file, not a pipe, which would break with us; a session of its own: the
    # terminal's Ctrl-C reaches the child through us, once.
    with open(folder / "log.txt", "ab") as log, open(folder / "log.txt", "rb") as printed:
        printed.seek(0, os.SEEK_END)
        streams: dict = dict(stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
        child = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        _running.add(child)
        try:
            while code is None:
                try:
                    with suppress(subprocess.TimeoutExpired):
                        code = child.wait(_GLANCE)
                    if show:
                        sys.stderr.write(text(printed.read()))
                        sys.stderr.flush()
                except KeyboardInterrupt as again:
                    if interrupted:
                        child.kill()
                    interrupted = again
                    stop_children()
        finally:
            _running.discard(child)
            if child.stdin:
                child.stdin.close()
    return 130 if interrupted else code, interrupted


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

    They are done by the workers of the cluster at `scheduler`, which see the same files; or on a
    cluster of this machine with a worker for each of `devices`.

    A task whose worker dies is done by another one, three times at most. The address of the
    dashboard is printed, where there is one. Raises UserError where distributed is not installed,
    or no worker of the cluster offers a device.
    """
    with _connected(devices, scheduler) as client:
        from distributed import as_completed

        port = client.scheduler_info()["services"].get("dashboard")
        if port and (scheduler or find_spec("bokeh")):  # which draws that of this machine
            at = client.dashboard_link if scheduler else f"http://{_HERE}:{port}/status"
            tqdm.write(f"Dask's dashboard: {at}")
        options = {"pure": False, "resources": {RESOURCE: 1}}
        futures = {client.submit(work, *task, **options): n for n, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                yield futures[future], _outcome(future)
        except BaseException:  # Ctrl-C, or whoever asks has enough
            client.cancel(list(futures))  # those that have not started
            client.run(_finish, {future.key for future in futures})
            raise


def ask_workers(question: Callable[..., Any], args: tuple, scheduler: str) -> dict[str, Any]:
    """What question(*args) returns on each worker with a device, or the exception that it raised,
    by the worker's address. Raises UserError as `on_workers` does."""
    with _connected((), scheduler) as client:
        return client.run(question, *args, workers=_with_device(client), on_error="return")


def _with_device(client) -> list[str]:
    """Addresses of the workers that offer a device."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, w in workers.items() if w.get("resources", {}).get(RESOURCE)]


@contextmanager
def _connected(devices: Sequence[str | None], scheduler: str | None):
    """A client of the cluster, or of one on this machine that ends with it."""
    # here and in workers: the rest is of no use to people
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    try:
        from distributed import Client, Scheduler, SpecCluster, Worker
    except ImportError:
        install = "pip install 'hardsplat[dask]'"
        raise UserError(f"several devices need the package distributed: {install}") from None
    cluster = None
    if scheduler is None:
        workers = {i: {"cls": Worker, "options": _worker(d)} for i, d in enumerate(devices)}
        main = {"cls": Scheduler, "options": _local_scheduler()}
        cluster = SpecCluster(workers=workers, scheduler=main)
    try:
        client = Client(cluster or scheduler, timeout=ANSWER)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"{scheduler}: no Dask scheduler answers there ({error})") from None
    try:
        if cluster is not None:
            client.wait_for_workers(len(devices))
        if not _with_device(client):
            worker = f"dask worker {scheduler} --nthreads 1 --resources {RESOURCE}=1"
            start = f"start them with: HARDSPLAT_DEVICE=0 {worker}"
            raise UserError(f"no worker at {scheduler} offers a device; {start}")
        yield client
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def _local_scheduler() -> dict:
    # no port that takes work from other users of the machine; the dashboard only shows
    own = dict(protocol="inproc://", dashboard_address=f"{_HERE}:0")
    return own | {"dashboard": find_spec("bokeh") is not None}


def _worker(device: str | None) -> dict:
    thread = ThreadPoolExecutor(1, "device", setattr, (_own, "device", device))
    limits = {"nthreads": 1, "resources": {RESOURCE: 1}, "memory_limit": 0, "dashboard": False}
    # a worker has a port for HTTP even without a dashboard
    return limits | {"executor": thread, "dashboard_address": f"{_HERE}:0"}


def _outcome(future) -> Any:
    try:
        return future.result()
    except Exception as error:  # of the task, or of its worker
        return error
