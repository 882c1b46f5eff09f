"""Training of blocks as tasks: on this machine's devices or a Dask cluster, each in a process of
its own."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from tqdm import tqdm

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import json_of, write_json
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.version import __version__
from hardsplat.blocks.leaf import OUTCOME, START, TASK
from hardsplat.blocks.plan import SceneBlock
from hardsplat.gpu.device.instance import NO_DEVICE, Instance, validation_wanted
from hardsplat.results.folder import OF_A_RUN, archive_run, make_folder
from hardsplat.settings.option import flag
from hardsplat.settings.run import BlockSettings
from hardsplat.settings.train import chosen_settings
from hardsplat.study.workers import how_it_ended, on_workers, run_child

# settings on which the splats of a block do not depend
HARMLESS = {field.name for field in fields(BlockSettings)} | set(
    "result_dir eval_steps save_steps checkpoint_every resume log quiet verbose profile device "
    "images batch_steps".split()
)
TRIES = 3  # of a block whose process ends without an outcome
FULL = 1 << 20  # bytes that are left of a full disk
FREE = 120.0  # s that a block waits for the process of a worker that is gone to save and end


def write_task(folder: Path, block: SceneBlock, start: Sequence, grows: bool, shared: dict) -> Path:
    """Makes folder/NAME with the task.json of a block, and returns it, absolute. A block that was
    trained by another task moves to earlier_1 below it.

    start, grows: see first_splats and settings_of in leaf.py. shared: what the tasks of a scene
    have in common: plan, scaffold, settings.
    """
    path = (folder / block.name).resolve()
    make_folder(path)
    task = shared | {"block": asdict(block), "start": start, "grows": grows}
    if outcome_of(path).get("status") == "done" and (other := _differing(path, task)):
        earlier = archive_run(path, (*OF_A_RUN, OUTCOME, TASK, START, "log.txt"))
        tqdm.write(
            f"note: {block.name} was trained with another {other}: it is trained again, and what "
            f"there was is in {earlier}"
        )
    write_json(path / TASK, task)
    return path


def _differing(path: Path, task: Mapping) -> str:
    """What a task has otherwise than the one in the folder of its block, in words; "" where that
    changes nothing."""
    try:
        old, new = json_of((path / TASK).read_text()), json.loads(json.dumps(task))
        own = [n for n, v in new["block"].items() if n != "seconds" and old["block"].get(n) != v]
        own += ["neighbour"] * (old.get("after") != new.get("after"))
        given = ((n, v) for n, v in chosen_settings(new["settings"]).items() if n not in HARMLESS)
        own += [flag(n) for n, v in given if old["settings"].get(n) != v]
        return ", ".join(own)
    except (OSError, ValueError, LookupError, AttributeError):  # of another version, or damaged
        return "task"


def outcome_of(task: Path) -> dict:
    """What a block's training left in its block.json; empty where it has not ended."""
    try:
        return json_of((task / OUTCOME).read_text())
    except (OSError, ValueError):
        return {}


def train_tasks(tasks: Sequence[Path], settings: BlockSettings) -> dict[str, str]:
    """Trains blocks, and returns why some failed, by name. Raises UserError where there is no
    worker with a device."""
    failed: dict[str, str] = {}
    if not tasks:
        return failed
    scheduler = scheduler_of(settings)
    devices = () if scheduler else devices_of(settings)
    work = [(task, __version__) for task in tasks]
    for number, outcome in on_workers(train_task, work, devices, scheduler):
        if outcome:  # an exception, or why it failed
            name, why = tasks[number].name, " ".join(str(outcome).split())
            failed[name] = why
            tqdm.write(f"{name} failed: {why}")
    return failed


def devices_of(settings: BlockSettings) -> list[str | None]:
    """Devices that train blocks, by index; those that draw in software only where there are no
    others. Raises UserError where there is none."""
    if settings.block_devices:
        return [word.strip() for word in settings.block_devices.split(",")]
    with Instance(validation_wanted()) as instance:
        found = instance.physical_devices()
    if not found:
        raise UserError(NO_DEVICE)
    real = [i for i, device in enumerate(found) if device.kind != "CPU"]
    return [str(i) for i in real or [0]]


def train_task(folder: Path, version: str) -> str | None:
    """Trains a block on a worker; why that cannot be, or None."""
    if version != __version__:
        return f"this worker has hardsplat {__version__}, the command has {version}"
    if not (folder / TASK).is_file():
        return f"this worker does not see {folder}: share the result folder among all workers"
    return train_here(folder)


def train_here(folder: Path) -> str | None:
    """Trains a block in a child of this process, and again where that ends without an outcome, up
    to TRIES times; why that failed, or None."""
    code = 0
    for _ in range(TRIES):
        _wait_until_free(folder)
        (folder / OUTCOME).unlink(missing_ok=True)
        code = run_child("hardsplat.blocks.leaf", folder, None, show=False)
        if outcome := outcome_of(folder):
            return outcome.get("error")
        if code == 130:  # asked to save and end
            return "interrupted"
    if shutil.disk_usage(folder).free < FULL:
        return f"the disk of {folder} is full: free some space"
    return how_it_ended(code, folder)


def _wait_until_free(folder: Path) -> None:
    """Waits for a process that still holds the folder, such as one whose worker is gone."""
    end = time.monotonic() + FREE
    while True:
        try:
            FolderLock(folder).release()
            return
        except UserError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def scheduler_of(settings: BlockSettings) -> str | None:
    """The address of the cluster that the settings name; None for this machine. Raises UserError
    for a file that names none."""
    named = settings.cluster
    if named is None or "://" in named:
        return named
    try:
        return str(json_of(Path(named).expanduser().read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "neither an address, tcp://HOST:PORT, nor the file of a scheduler"
        raise UserError(f"--cluster {named}: {what} ({reason(error)})") from None


@contextmanager
def follow(blocks: Sequence[SceneBlock], tasks: Sequence[Path], quiet: bool) -> Iterator[None]:
    """One progress bar for all blocks, over their steps. tasks: their folders."""
    ended, total = threading.Event(), sum(block.steps for block in blocks)
    bar = Bar(total=total, desc=f"{len(tasks)} blocks", unit="", disable=quiet)

    def look() -> None:
        while not ended.wait(1.0):
            bar.update(sum(map(_steps, tasks)) - bar.n)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
        bar.update(total - bar.n)
    finally:
        ended.set()
        thread.join()
        bar.close()


def _steps(task: Path) -> int:
    """How many steps a block has made, by the last whole line of its metrics.jsonl."""
    try:
        with open(task / "metrics.jsonl", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = file.read().splitlines()
        return int(json_of(lines[-1])["step"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0
