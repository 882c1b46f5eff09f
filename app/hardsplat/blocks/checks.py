"""What blocks need of the machines that train them, asked before anything is trained: the same
hardsplat, a device, a shared folder with space, all photographs."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hardsplat.base.errors import UserError, reason
from hardsplat.base.version import __version__
from hardsplat.blocks.planner import Wanted
from hardsplat.blocks.tasks import devices_of, scheduler_of
from hardsplat.contract.footprint import SHOWN, most_splats, packed
from hardsplat.gpu.probe import open_device
from hardsplat.raster.backends import training_needs
from hardsplat.raster.core.sinks import moments_of
from hardsplat.settings.train import TrainConfig
from hardsplat.study.workers import ask_workers
from hardsplat.tables import quantities

# of a splat on the disk, over its numbers: the splats of its block, its tile and the joined file;
# and while a block is trained what it starts from, and two checkpoints, with moments, of which a
# third replaces the older one
COPIES, TRAINED = 3, 1 + 3 * 3


@dataclass(frozen=True)
class Question:
    """folder: the result folder, in which `token` is. photographs: files. sh_degree, moments,
    out_of_core: of the training."""

    folder: str
    token: str
    photographs: tuple[str, ...]
    sh_degree: int
    moments: str
    out_of_core: bool = False


@dataclass(frozen=True)
class Answer:
    """error: why no block can be trained there, or "". device: its name. splats: most that it
    holds in training. free: bytes on the disk of the result folder."""

    error: str = ""
    device: str = ""
    splats: int = 0
    free: int = 0


def answer(question: Question, version: str, device: str | None = None) -> dict[str, Any]:
    """The Answer of the machine that this runs on, by name. version: of the hardsplat that asks.
    device: index or name, by default that of HARDSPLAT_DEVICE."""
    try:
        return asdict(_answer(question, version, device))
    except UserError as error:
        return asdict(Answer(str(error)))


def _answer(question: Question, version: str, device: str | None) -> Answer:
    if version != __version__:
        return Answer(f"it has hardsplat {__version__}, the command has {version}")
    folder = Path(question.folder)
    if not (folder / question.token).is_file():
        return Answer(f"it does not see {folder}: share the result folder among all workers")
    missing = [path for path in question.photographs if not Path(path).is_file()]
    if missing:
        what = f"{len(missing)} photographs are missing there, the first {missing[0]}"
        return Answer(f"{what}: share the scene among all workers")
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Answer(f"{folder}: {reason(error)}")
    gpu = open_device(device)
    try:
        moments = moments_of(gpu, question.moments)
        needs = training_needs("tiled", question.sh_degree, moments, statistics=("score_stats",))
        needs = packed(needs, SHOWN, True) if question.out_of_core else needs
        most = most_splats(needs, gpu.memory_bytes, gpu.max_buffer, gpu.max_allocation)
        return Answer("", gpu.name, most, free)
    finally:
        gpu.close()


def check_workers(
    config: TrainConfig, folder: Path, photographs: Sequence[Path], splats: int
) -> dict[str, Answer]:
    """Answers of what trains the blocks of these settings, see `check`. folder: the result folder.
    photographs: files."""
    c, token = config, folder / f".asked-{secrets.token_hex(4)}"
    files = tuple(str(path.absolute()) for path in photographs)
    below, outside = str(folder.resolve()), c.run.out_of_core == "on"
    question = Question(below, token.name, files, c.model.sh_degree, c.adam.moments, outside)
    scheduler = scheduler_of(c.blocks)
    devices = [] if scheduler else list(dict.fromkeys(devices_of(c.blocks)))
    try:
        token.touch()
        there = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        blocks = Wanted(str(c.blocks.blocks)).count
        found = check(question, devices, scheduler, splats, there, blocks)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {reason(error)}") from None
    finally:
        token.unlink(missing_ok=True)
    least, names = min(one.splats for one in found.values()), {one.device for one in found.values()}
    where = f"{len(found)} on {', '.join(sorted(names))}"
    tqdm.write(f"note: workers: {where}; the smallest device trains up to {least:,} splats")
    return found


def check(
    question: Question,
    devices: Sequence[str | None],
    scheduler: str | None,
    splats: int,
    there: int = 0,
    blocks: int | None = None,
) -> dict[str, Answer]:
    """Answers by worker of the cluster, or by device of this machine where there is no cluster.

    splats: of the whole scene. there: bytes that the result folder has already. blocks: how many
    there are, None where that is not known yet. Raises UserError with a line on the first that
    cannot train.
    """
    answers: Mapping[str, dict | Exception]
    if scheduler is None:
        answers = {f"device {d or 0}": answer(question, __version__, d) for d in devices}
    else:
        answers = ask_workers(answer, (question, __version__), scheduler)
    found: dict[str, Answer] = {}
    number = splats * 4 * quantities.numbers(question.sh_degree)
    for name, given in answers.items():
        if isinstance(given, Exception):
            others = isinstance(given, ImportError | AttributeError | TypeError)
            why = "it has another hardsplat or none" if others else reason(given)
            raise UserError(f"{name}: {why}; the command has hardsplat {__version__}")
        found[name] = one = Answer(**given)
        if one.error:
            raise UserError(f"{name}: {one.error}")
        # a scene that fits the device is polished as a whole
        parts = blocks if blocks and splats > one.splats else len(answers)
        needed = int(number * (COPIES + TRAINED * min(1, len(answers) / parts)))
        if one.free < needed - there:
            gib = f"{one.free / 2**30:.1f} GiB are free in {question.folder}"
            wanted = f"blocks of {splats:,} splats take {(needed - there) / 2**30:.1f} GiB more"
            raise UserError(f"{name}: {gib}, and {wanted}: free some, or choose --result-dir")
    return found
