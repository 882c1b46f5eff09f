"""What other programs can follow while a run trains: metrics.jsonl, metrics.csv, or a folder for
TensorBoard."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import json_of, replacing
from hardsplat.train.measure.measure import Measured
from hardsplat.train.watchers.watch import Running, Watcher

# of a record, in this order
COLUMNS = ["step", "seconds", "loss", "psnr", "splats", "steps_per_second"]
COLUMNS += ["eval_psnr", "eval_ssim"]
PICTURE_SECONDS = 60.0  # between pictures of a held-out view, at least
TENSORBOARD = "tensorboard"  # the folder, in the result folder


def log_of(name: str) -> Watcher | None:
    """The watcher that `--log` names; None for "none". Raises UserError where it takes a package
    that is not installed."""
    if name == "jsonl":
        return Records("metrics.jsonl", json_lines, lambda record: json.dumps(record) + "\n")
    if name == "csv":
        return Records("metrics.csv", _csv_lines, _csv_line)
    return None if name == "none" else TensorBoard()


def _unwritable(path: Path, error: OSError) -> UserError:
    advice = "choose another --result-dir, or --log none"
    return UserError(f"cannot write {path}: {error.strerror}; {advice}")


def batch_record(run: Running) -> dict[str, float]:
    """What is known of the batch that was just done."""
    log = run.log
    speed = run.session.runner.steps_per_second
    numbers = (log.steps[-1], log.seconds[-1], log.losses[-1], log.psnrs[-1], log.splats[-1], speed)
    return {name: value for name, value in zip(COLUMNS, numbers) if value is not None}


class Records(Watcher):
    """A record for every batch and every measurement, written at once. A run that goes on keeps the
    records up to its step.

    title: the file. begin(file, step): the lines that it begins with, of an earlier part of the run
    those that are not after `step`. line: of a record.
    """

    def __init__(
        self,
        title: str,
        begin: Callable[[Path, int], Iterable[str]],
        line: Callable[[dict[str, float]], str],
    ):
        self.title, self._begin, self._line = title, begin, line
        self._file: IO[str] | None = None

    def open(self, run: Running) -> None:
        path = run.folder / self.title
        try:
            with replacing(path) as partial:
                partial.write_text("".join(self._begin(path, run.session.step)), encoding="utf-8")
            self._file = path.open("a", encoding="utf-8", newline="")
        except OSError as error:
            raise _unwritable(path, error) from None

    def begin_again(self, run: Running) -> None:
        self.close()
        self.open(run)

    def _write(self, record: dict[str, float]) -> None:
        if self._file is not None:
            try:
                self._file.write(self._line(record))
                self._file.flush()
            except OSError as error:  # a full disk must not end a training that may go on
                print(f"note: {self.title} ends here: {error.strerror}")
                self._file = None

    def batch(self, run: Running) -> None:
        self._write(batch_record(run))

    def measured(self, run: Running, result: dict, example: Measured) -> None:
        record = {
            "step": result["step"],
            "seconds": result["training_seconds"],
            "splats": result["splats"],
            "eval_psnr": result["psnr"],
            "eval_ssim": result["ssim"],
        }
        self._write(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _read(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)


def json_lines(path: Path, step: int) -> Iterator[str]:
    """Lines of metrics.jsonl up to a step: an object each, with some of COLUMNS."""
    for line in _read(path):
        try:
            record = json_of(line)
            if line.endswith("\n") and record["step"] <= step:
                yield line
        except (ValueError, KeyError, TypeError):
            continue  # cut short, or another program's


def _csv_lines(path: Path, step: int) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\n"
    for line in _read(path):
        cells = next(csv.reader([line]), [])
        whole = line.endswith("\n") and len(cells) == len(COLUMNS)
        if whole and cells[0].isdigit() and int(cells[0]) <= step:
            yield line


def _csv_line(record: dict[str, float]) -> str:
    """What the record does not know is left out."""
    return ",".join(repr(record[name]) if name in record else "" for name in COLUMNS) + "\n"


class TensorBoard(Watcher):
    """Scalars, and now and then a held-out view next to its photograph, in the folder
    `tensorboard`. Takes the package tensorboardX."""

    title = "TensorBoard"

    def __init__(self) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UserError(
                "--log tensorboard needs tensorboardX: pip install 'hardsplat[tensorboard]'"
            ) from None
        self._make, self._pictured = SummaryWriter, 0.0
        self._writer: Any = None

    def open(self, run: Running) -> None:
        step = run.session.step
        self._begin(run.folder / TENSORBOARD, step + 1 if step else None)

    def begin_again(self, run: Running) -> None:
        self.close()
        self._begin(run.folder / TENSORBOARD, 1)

    def _begin(self, folder: Path, purge_step: int | None) -> None:
        """purge_step: from where on what the folder has counts no more."""
        try:
            self._writer = self._make(str(folder), purge_step=purge_step)
        except OSError as error:
            raise _unwritable(folder, error) from None
        self._pictured = time.monotonic()

    def _scalars(self, folder: str, record: dict[str, float]) -> None:
        for name, value in record.items():
            if name not in ("step", "seconds"):
                self._writer.add_scalar(f"{folder}/{name}", value, record["step"])

    def batch(self, run: Running) -> None:
        self._scalars("train", batch_record(run))

    def turn(self, run: Running, wait: bool = False) -> None:
        due = not wait and time.monotonic() - self._pictured > PICTURE_SECONDS
        if due and (example := run.example()) is not None:
            self._picture(run.session.step, example)

    def measured(self, run: Running, result: dict, example: Measured) -> None:
        self._scalars("held-out", {name: result[name] for name in ("step", "psnr", "ssim")})
        self._picture(result["step"], example)
        self._writer.flush()

    def _picture(self, step: int, example: Measured) -> None:
        image = example.image
        if image is None:
            return
        drawn = np.round(np.clip(np.nan_to_num(image), 0, 1) * 255).astype(np.uint8)
        both = np.concatenate([drawn, example.photo[..., :3]], axis=1)
        self._writer.add_image("held-out/" + example.name, both, step, dataformats="HWC")
        self._pictured = time.monotonic()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
