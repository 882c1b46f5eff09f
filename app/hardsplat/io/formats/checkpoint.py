"""Checkpoints: everything a run needs to go on exactly where it was, in one .npz.

The random state is the step itself: view order, backgrounds, split noise and the rounding of
moments are hashes of (seed, step). Moments are float32 here, also those of `--moments bfloat16`,
which are exact in it: a run may continue with either setting.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike

from hardsplat import contract
from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import Behind, check_listed, replacing
from hardsplat.contract.footprint import STATISTICS
from hardsplat.io.formats.base import SplatStream, in_memory
from hardsplat.io.formats.npz import arrays_of
from hardsplat.model.gaussians import Gaussians, first_values
from hardsplat.tables import quantities
from hardsplat.tables.quantities import Of

VERSION = 5
_PIECE = 1 << 24  # bytes that are written at a time
NEWEST = 2  # checkpoints of a run that stay: the last one, and one more should that be damaged


def shapes(sh_degree: int, items: Mapping[Of, int]) -> dict[str, tuple[int, ...]]:
    """The shape of every array that a checkpoint may have, by name. items: how many splats,
    photographs and cameras there are."""
    found: dict[str, tuple[int, ...]] = {}
    for q in quantities.QUANTITIES.values():
        found[q.name] = q.shape(items[q.of], sh_degree)
        found[q.moments] = 2, *found[q.name]
        if q.of == "splat":
            found[q.average] = found[q.name]
    return found | {name: (1, items["splat"], contract.itemsize(name) // 4) for name in STATISTICS}


@dataclass
class Checkpoint:
    """step: steps done. buffers: float32 arrays with the shapes of `shapes`: parameters, moments,
    statistics.

    log: what the run had written down by then, as Log.history gives it. fresh: moments are the
    zeros of a beginning, which need no copy. Without statistics they are zero.
    """

    step: int
    sh_degree: int
    buffers: dict[str, np.ndarray]
    log: dict = field(default_factory=dict)
    fresh: bool = False

    @property
    def splats(self) -> int:
        return self.buffers["means"].shape[1]

    @classmethod
    def initial(
        cls, gaussians: Gaussians, sh_degree: int, items: Mapping[Of, int] | None = None
    ) -> Checkpoint:
        """Step 0: nothing learned, no statistics. SH bands that `gaussians` lacks are zeros. items:
        how many photographs and cameras there are."""
        counted: dict[Of, int] = {"photograph": 0, "camera": 0, "texel": 0, **(items or {})}
        counted["splat"] = len(gaussians)
        # zeros take no memory until they are written to
        wanted, later = shapes(sh_degree, counted), {*STATISTICS, *quantities.averages()}
        buffers = {n: np.zeros(wanted[n], np.float32) for n in wanted if n not in later}
        for q in quantities.QUANTITIES.values():
            if q.of != "splat":
                buffers[q.name][:] = first_values(q, counted[q.of], sh_degree)
        return cls(0, sh_degree, buffers | gaussians.planes(sh_degree), fresh=True)


def path_of(result_dir: Path, step: int) -> Path:
    return Path(result_dir) / "ckpts" / f"ckpt_{step}.npz"


def newest(result_dir: Path) -> Path | None:
    """The checkpoint written last: those of an earlier run in the same folder may have more
    steps."""
    return max(_all(result_dir), key=_age, default=None)


def _all(result_dir: Path) -> list[Path]:
    if not (folder := Path(result_dir) / "ckpts").is_dir():
        return []
    check_listed(folder)
    return [p for p in folder.glob("ckpt_*.npz") if p.stem[5:].isdigit()]


def _age(path: Path) -> tuple[int, int]:
    return path.stat().st_mtime_ns, int(path.stem[5:])


def prune(result_dir: Path, keep: Collection[int], most: int = NEWEST) -> None:
    """Deletes the checkpoints of a run but for the `most` newest ones and those of the steps
    `keep`. What cannot be deleted stays."""
    for path in sorted(_all(result_dir), key=_age, reverse=True)[most:]:
        if int(path.stem[5:]) not in keep:
            with suppress(OSError):
                path.unlink()


def save(
    path: Path, checkpoint: Checkpoint, durable: bool = True, log: Future[dict] | None = None
) -> None:
    """Writes beside and renames, so that a crash leaves the old file or the new one. durable: see
    hardsplat.base.files.replacing. Raises UserError when it cannot.

    log: waited for after everything else is written, instead of the checkpoint's.
    """
    c = checkpoint
    try:
        with (
            replacing(path, durable) as partial,
            open(partial, "wb") as file,
            closing(Behind(file)) as behind,
            zipfile.ZipFile(behind, "w") as archive,
        ):
            numbers = dict(version=VERSION, step=c.step, sh_degree=c.sh_degree)
            for name, values in (numbers | c.buffers).items():
                _add(archive, name, values)
            _add(archive, "log", json.dumps(log.result() if log else c.log))
    except OSError as error:
        advice = "free some space or choose another --result-dir"
        raise UserError(f"cannot write {path}: {error.strerror}; {advice}") from None


def _add(archive: zipfile.ZipFile, name: str, values: ArrayLike) -> None:
    """Writes what numpy.savez does, array by array, but no copy of each piece, for which Python
    would be held."""
    values = np.asarray(values, order="C")
    data = values.reshape(-1).view(np.uint8)
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, npy.header_data_from_array_1_0(values))
        for at in range(0, len(data), _PIECE):
            member.write(data[at : at + _PIECE].data)


def _history(log) -> dict:
    """What a run had written down, if it is what Log.history gives. Raises ValueError for
    others."""

    def of(kind, values) -> bool:
        known = (isinstance(v, kind) and not isinstance(v, bool) for v in values)
        return isinstance(values, list) and all(known)

    number, evaluations = (int, float), log.get("evaluations", [])
    views = [v for e in evaluations for v in e["views"]]
    kinds = dict(seconds=(*number, type(None)), losses=number, psnrs=number, steps=int, splats=int)
    measured = ("step", "splats", "training_seconds", "psnr", "ssim")
    right = [of(kind, log.get(name, [])) for name, kind in kinds.items()]
    right += [
        of(number, [v[name] for v in views for name in ("psnr", "ssim")]),
        of(number, [e[name] for e in evaluations for name in measured]),
        of(str, [v["name"] for v in views]),
        all(of(number, look) and len(look) in (4, 5) for look in log.get("looks", [])),
        of(int, [log.get("settled", 0)]),
        of(number, log.get("color_gains", [])),
        isinstance(log.get("training_seconds", 0.0), number),
    ]
    if not all(right):
        raise ValueError("its log is not that of a run")
    return log


def load(path: Path) -> Checkpoint:
    """Reads and checks a checkpoint. Raises UserError for anything that is wrong with it."""
    try:
        with open(path, "rb") as f:
            if not zipfile.is_zipfile(f):
                raise ValueError("another kind of file, or cut short")
        with arrays_of(path) as data:
            if (version := int(data["version"])) != VERSION:
                what = f"checkpoint version {version}"
                raise UserError(f"{path}: {what}, this hardsplat reads {VERSION}")
            step, sh_degree = int(data["step"]), int(data["sh_degree"])
            if "lobe_axes" in data:
                what = "has lobes of colour, which an earlier version trained"
                raise UserError(f"{path}: {what}; begin with the run's splats.ply: --init FILE")
            needed = {name for q in quantities.of("splat") for name in (q.name, q.moments)}
            known = shapes(0, dict.fromkeys(quantities.ORDER, 0))
            buffers = {name: data[name] for name in known if name in needed or name in data}
            if "score_stats" in buffers and np.shape(buffers["score_stats"])[2:] == (5,):
                # absolute errors, which were kept once and read by nothing
                buffers["score_stats"] = np.delete(buffers["score_stats"], 3, axis=2)
            history = _history(json.loads(str(data["log"])))
        if step < 0 or not 0 <= sh_degree <= 3:
            raise ValueError(f"step {step} of SH degree {sh_degree}")
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except UserError:
        raise
    except Exception as error:  # the parser raises almost anything on a damaged file
        what = f"not a usable checkpoint ({reason(error)})"
        raise UserError(f"{path}: {what}; give another with --ckpt") from None
    items = dict.fromkeys(quantities.ORDER, 0)
    for q in reversed(quantities.QUANTITIES.values()):  # the first of a kind counts its items
        if q.name in buffers and buffers[q.name].ndim == 3:
            items[q.of] = buffers[q.name].shape[1]
    # quantities of photographs or cameras that were not there yet begin at their first values
    wanted = shapes(sh_degree, items)
    for name, values in buffers.items():
        expected = wanted[name]
        if values.dtype != np.float32 or values.shape != expected or not items["splat"]:
            what = f"{name} is {values.dtype} {values.shape}, expected float32 {expected}"
            raise UserError(f"{path}: {what}; give another with --ckpt")
    return Checkpoint(step, sh_degree, buffers, history)


# -- as a file of splats


def holds(path: Path) -> bool:
    """Whether an .npz is a checkpoint."""
    with suppress(Exception), zipfile.ZipFile(path) as archive:
        return {"step.npy", "version.npy", "log.npy"} <= set(archive.namelist())
    return False  # a damaged archive, too: the reader of .npz says what is wrong with it


def read(path: Path) -> SplatStream:
    """The splats of a checkpoint without their moments, all at once."""
    buffers = load(path).buffers
    planes = {q.name: buffers[q.name] for q in quantities.of("splat") if q.name in buffers}
    return in_memory(Gaussians.from_planes(planes))
