"""Trained splats from any file we know: Inria's PLY, or an .npz with arrays named as gsplat's parameters."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.io.ply import load_ply

_NPZ = ("means", "quats", "opacities", "scales", "sh0")


def load_splats(path: str | Path) -> Gaussians:
    """.ply, or .npz with means (N, 3), quats (N, 4; wxyz), opacities (N; logit), scales (N, 3; log), sh0 (N, 1, 3) and optionally
    shN (N, K - 1, 3), or shN_i8 of it times 128. Raises UserError for anything else."""
    path = Path(path)
    if path.suffix == ".ply":
        return load_ply(path)
    if path.suffix != ".npz":
        raise UserError(f"{path}: splats come as .ply or .npz")
    try:
        if path.is_file() and not zipfile.is_zipfile(path):  # numpy would take it for a pickle, and say how to open it all the same
            raise UserError(f"{path}: not readable splats: not an .npz, or cut short")
        with np.load(path, allow_pickle=False) as data:
            missing = [name for name in _NPZ if name not in data.files]
            if missing:
                raise UserError(f"{path}: no array {missing[0]}; it needs {', '.join(_NPZ)}")
            means, quats, logits, log_scales, sh0 = (data[name].astype(np.float32) for name in _NPZ)
            if "shN_i8" in data.files:
                rest = data["shN_i8"].astype(np.float32) / 128
            else:
                rest = data["shN"].astype(np.float32) if "shN" in data.files else np.zeros((len(means), 0, 3), np.float32)
        n = len(means)
        sh = np.concatenate([sh0.reshape(n, 1, 3), rest.reshape(n, -1, 3)], axis=1)
        return Gaussians.from_parameters(means, quats, log_scales, logits.reshape(n), sh)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not readable splats ({error})") from None
