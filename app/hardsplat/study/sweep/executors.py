"""Executors of a sweep: this machine, one run after another, or the workers of a Dask cluster.

An executor takes jobs and yields (job, record) as runs end. Every run is a process, see
app/hardsplat/study/sweep/one_run.py.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import written
from hardsplat.study.sweep import run_file
from hardsplat.study.sweep.plan import Job

_running: set[subprocess.Popen] = set()
_GLANCE = 0.2  # seconds between reads of what a run prints
RESOURCE = "device"  # of a Dask worker: one run at a time


def execute(folder: Path, job: Job, device: str | None = None, show: bool = False) -> dict:
    """Does a run in `folder` and returns its record. show: what it prints appears on stderr too,
    besides log.txt.

    An interrupted run resumes from its checkpoint; anything else in the folder is half a run, which
    begins again.
    """
    before = run_file.read(folder)
    if before is None or before["status"] != "interrupted" or run_file.difference(before, job):
        shutil.rmtree(folder, ignore_errors=True)
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        run_file.write(folder, run_file.new(job))
        code, interrupted = _process(folder, device, show)
    record = run_file.read(folder) or run_file.new(job)
    if record["status"] == "running":  # it came to an end of which it could not tell
        if code in (130, -signal.SIGINT, -signal.SIGTERM):
            record |= {"status": "interrupted", "error": None}
        else:
            signalled = code < 0 and f"by signal {-code} ({signal.Signals(-code).name})"
            how = signalled or f"with exit code {code}"
            why = f"the process ended {how}; see {folder / 'log.txt'}"
            record |= {"status": "failed", "error": why}
        run_file.write(folder, record)
    if interrupted:
        raise interrupted
    return record


def _process(folder: Path, device: str | None, show: bool) -> tuple[int, KeyboardInterrupt | None]:
    """The exit code, and a Ctrl-C that came. The first asks the run to save and end, a second one
    kills it."""
    environment = os.environ | ({"HARDSPLAT_DEVICE": device} if device else {})
    command = [sys.executable, "-m", "hardsplat.study.sweep.one_run", str(folder)]
    command += [] if show else ["--quiet"]
    code, interrupted = None, None
    text = codecs.getincrementaldecoder("utf-8")("replace").decode
    # Output goes to a file, not a pipe, which would break with us; a session of its own: the
    # terminal's Ctrl-C reaches the run through us, once.
    with open(folder / "log.txt", "ab") as log, open(folder / "log.txt", "rb") as printed:
        printed.seek(0, os.SEEK_END)
        streams: dict = dict(stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
        run = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        _running.add(run)
        try:
            while code is None:
                try:
                    with suppress(subprocess.TimeoutExpired):
                        code = run.wait(_GLANCE)
                    if show:
                        sys.stderr.write(text(printed.read()))
                        sys.stderr.flush()
                except KeyboardInterrupt as again:
                    if interrupted:
                        run.kill()
                    interrupted = again
                    stop()
        finally:
            _running.discard(run)
            if run.stdin:
                run.stdin.close()
    return 130 if interrupted else code, interrupted


def stop() -> None:
    """Has the runs of this process save and end."""
    for run in list(_running):
        if run.stdin:
            run.stdin.close()


async def _finish() -> None:
    """On a worker: has its run save and end, and waits for that."""
    stop()
    while _running:
        await asyncio.sleep(0.1)


def local(
    jobs: Sequence[tuple[Path, Job]], device: str | None, show: bool
) -> Iterator[tuple[Job, dict]]:
    """One after another."""
    for folder, job in jobs:
        yield job, execute(folder, job, device, show)


def dask(
    jobs: Sequence[tuple[Path, Job]], devices: Sequence[str | None], scheduler: str | None
) -> Iterator[tuple[Job, dict]]:
    """On the workers of the cluster at `scheduler`, which see the same files; or on a cluster of
    this machine with a worker for each of `devices`.

    Raises UserError where distributed is not installed, or no worker of the cluster offers a
    device.
    """
    # here and in workers: the rest is of no use to people
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    try:
        from distributed import Client, Nanny, Scheduler, SpecCluster, as_completed
    except ImportError:
        install = "pip install 'hardsplat[dask]'"
        raise UserError(f"--executor dask needs the package distributed: {install}") from None
    cluster = None
    if scheduler is None:
        workers = {i: {"cls": Nanny, "options": _worker(d)} for i, d in enumerate(devices)}
        main = {"cls": Scheduler, "options": _LOCAL_SCHEDULER}
        with _deaf():
            cluster = SpecCluster(workers=workers, scheduler=main)
    try:
        client = Client(cluster or scheduler, timeout="30s")
    except (OSError, TimeoutError) as error:
        silent = f"no Dask scheduler answers there ({error})"
        raise UserError(f"--scheduler {scheduler}: {silent}") from None
    try:
        if cluster is not None:
            client.wait_for_workers(len(devices))
        offered = client.scheduler_info()["workers"].values()
        if not any(w.get("resources", {}).get(RESOURCE) for w in offered):
            worker = f"dask worker {scheduler} --nthreads 1 --resources {RESOURCE}=1"
            start = f"start them with: HARDSPLAT_DEVICE=0 {worker}"
            raise UserError(f"no worker at {scheduler} offers a device; {start}")
        futures = {
            client.submit(execute, folder, job, pure=False, resources={RESOURCE: 1}): job
            for folder, job in jobs
        }
        try:
            for future in as_completed(futures):
                yield futures[future], _result(future, futures[future])
        except KeyboardInterrupt:
            client.cancel(list(futures))  # those that have not started
            client.run(_finish)
            raise
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


@contextmanager
def _deaf():
    """Processes started in here leave Ctrl-C, which a terminal sends to all, to this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_LOCAL_SCHEDULER = dict(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0")


def _worker(device: str | None) -> dict:
    limits = {"nthreads": 1, "resources": {RESOURCE: 1}, "memory_limit": 0, "dashboard": False}
    return limits | {"env": {"HARDSPLAT_DEVICE": device} if device else {}}


def _result(future, job: Job) -> dict:
    try:
        return future.result()
    except UserError as error:
        why = str(error)
    except Exception as error:  # of the worker, not of the run
        why = " ".join(f"its worker failed: {type(error).__name__}: {error}".split())
    return run_file.new(job) | {"status": "failed", "error": why}
