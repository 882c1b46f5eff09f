"""Checkpoints: everything a run needs to go on exactly where it was, in one .npz.

The random state is the step itself: view order, backgrounds, split noise and the rounding of moments are hashes of (seed, step).
Moments are float32 here, also those of `--moments bfloat16`, which are exact in it: a run may go on with either setting.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.errors import UserError
from hardsplat.files import replacing
from hardsplat.gaussians import Gaussians
from hardsplat.raster.parameters import FIELDS, MOMENTS, planes_of

STATE = (*FIELDS, *MOMENTS, "grow_stats")
VALUES = {name: contract.itemsize(name) // 4 for name in STATE}  # floats of a splat in a plane
VERSION = 2


@dataclass
class Checkpoint:
    """step: steps done. sh_planes: (degree + 1)^2. buffers: (planes, N, values) float32 by contract name: parameters, moments, statistics.

    log: what the run had written down by then, as Log.history gives it.
    """

    step: int
    sh_planes: int
    buffers: dict[str, np.ndarray]
    log: dict = field(default_factory=dict)

    @property
    def splats(self) -> int:
        return self.buffers["means"].shape[1]

    @classmethod
    def initial(cls, gaussians: Gaussians, sh_planes: int) -> Checkpoint:
        """Step 0: nothing learned, no statistics. SH bands that `gaussians` lacks are zeros."""
        n, k = len(gaussians), gaussians.sh.shape[1]
        # zeros take no memory until they are written to
        buffers = {name: np.zeros((planes_of(name, sh_planes), n, width), np.float32) for name, width in VALUES.items()}
        for name in FIELDS[:-1]:
            buffers[name] = getattr(gaussians, name).reshape(1, n, -1)
        buffers["sh"][:k] = gaussians.sh.transpose(1, 0, 2)
        return cls(0, sh_planes, buffers)


def path_of(result_dir: Path, step: int) -> Path:
    return Path(result_dir) / "ckpts" / f"ckpt_{step}.npz"


def newest(result_dir: Path) -> Path | None:
    """The checkpoint written last: those of an earlier run in the same folder may have more steps."""
    found = [p for p in (Path(result_dir) / "ckpts").glob("ckpt_*.npz") if p.stem[5:].isdigit()]
    return max(found, key=lambda p: (p.stat().st_mtime_ns, int(p.stem[5:])), default=None)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Writes beside and renames, so that a crash leaves the old file or the new one. Raises UserError when it cannot."""
    c = checkpoint
    try:
        with replacing(path) as partial, open(partial, "wb") as f:
            np.savez(f, version=VERSION, step=c.step, sh_planes=c.sh_planes, log=json.dumps(c.log), **c.buffers)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; free some space or choose another --result-dir") from None


def load(path: Path) -> Checkpoint:
    """Reads and checks a checkpoint. Raises UserError for whatever is wrong with it."""
    try:
        with open(path, "rb") as f:
            if not zipfile.is_zipfile(f):
                raise UserError(f"{path}: not a usable checkpoint (another kind of file, or cut short); give another with --ckpt")
        with np.load(path, allow_pickle=False) as data:
            if int(data["version"]) != VERSION:
                raise UserError(f"{path}: checkpoint version {int(data['version'])}, this hardsplat reads {VERSION}")
            buffers = {name: data[name] for name in STATE}
            checkpoint = Checkpoint(int(data["step"]), int(data["sh_planes"]), buffers, json.loads(str(data["log"])))
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except UserError:
        raise
    except Exception as error:  # the parser raises almost anything on a damaged file
        text = str(error).splitlines()
        raise UserError(f"{path}: not a usable checkpoint ({text[0] if text else type(error).__name__}); give another with --ckpt") from None
    n = len(buffers["means"][0]) if buffers["means"].ndim == 3 and len(buffers["means"]) else 0
    for name, values in buffers.items():
        expected = planes_of(name, checkpoint.sh_planes), n, VALUES[name]
        if values.dtype != np.float32 or values.shape != expected or n == 0:
            raise UserError(f"{path}: {name} is {values.dtype} {values.shape}, expected float32 {expected}; give another with --ckpt")
    return checkpoint
