"""Splats of a training's checkpoint, `ckpts/ckpt_N.npz`: its parameters without the moments."""

from __future__ import annotations

import zipfile
from pathlib import Path

from hardsplat.gaussians import Gaussians
from hardsplat.io.formats.base import Splats, in_memory, reading
from hardsplat.io.formats.npz import check_sizes
from hardsplat.trained import of


def holds(path: Path) -> bool:
    """Whether an .npz is a checkpoint."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"step.npy", "version.npy", "log.npy"} <= set(archive.namelist())
    except Exception:  # a damaged archive is no checkpoint; the reader of .npz says what is wrong with it
        return False


def read(path: Path) -> Splats:
    """All of it at once, as training does."""
    check_sizes(path)
    with reading(path, "not a usable checkpoint"):
        return in_memory(_gaussians(path))


def _gaussians(path: Path) -> Gaussians:
    """The one place that knows how training keeps its checkpoints. Imported here, for all else in `io` is below `train`."""
    from hardsplat.train.checkpoint import load

    buffers = load(path).buffers
    return Gaussians.from_planes({q.name: buffers[q.name] for q in of("splat")})
