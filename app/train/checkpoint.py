"""Checkpoints: everything a run needs to go on exactly where it was, in one .npz.

The random state is the step itself: view order, backgrounds and split noise are hashes of (seed, step).
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.errors import UserError

VERSION = 1


@dataclass
class Checkpoint:
    """step: steps done. sh_planes: (degree + 1)^2. buffers: (planes, N, values) float32 by contract name: parameters, moments, statistics."""

    step: int
    sh_planes: int
    buffers: dict[str, np.ndarray]

    @property
    def splats(self) -> int:
        return self.buffers["means"].shape[1]


def path_of(result_dir: Path, step: int) -> Path:
    return Path(result_dir) / "ckpts" / f"ckpt_{step}.npz"


def newest(result_dir: Path) -> Path | None:
    """The checkpoint with the most steps in a result folder."""
    found = [p for p in (Path(result_dir) / "ckpts").glob("ckpt_*.npz") if p.stem[5:].isdigit()]
    return max(found, key=lambda p: int(p.stem[5:]), default=None)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Writes beside and renames, so that a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as f:
            np.savez(f, version=VERSION, step=checkpoint.step, sh_planes=checkpoint.sh_planes, **checkpoint.buffers)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}; free some space or choose another --result-dir") from None


def load(path: Path, names: tuple[str, ...]) -> Checkpoint:
    """Reads and checks a checkpoint that must hold the buffers `names`. Raises UserError for whatever is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as data:
            if int(data["version"]) != VERSION:
                raise UserError(f"{path}: checkpoint version {int(data['version'])}, this hardsplat reads {VERSION}")
            checkpoint = Checkpoint(int(data["step"]), int(data["sh_planes"]), {n: data[n] for n in names})
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a usable checkpoint ({error}); give another with --ckpt") from None
    n = checkpoint.splats if checkpoint.buffers["means"].ndim == 3 else -1
    for name, values in checkpoint.buffers.items():
        planes = checkpoint.sh_planes if name.endswith("sh") else 1
        if values.dtype != np.float32 or values.ndim != 3 or values.shape[:2] != (planes, n):
            raise UserError(f"{path}: {name} is {values.dtype} {values.shape}, expected float32 ({planes}, {n}, values)")
    return checkpoint
