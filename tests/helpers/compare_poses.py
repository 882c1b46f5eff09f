"""The poses of a COLMAP model beside the true ones, after the similarity that fits them best."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from hardsplat.io.scenes.colmap import read_model


class Comparison(NamedTuple):
    """Of photographs that both models have: distances as shares of the scene's extent, 1.1 times
    the largest distance of a true camera from the mean of them, as in training; angles in degrees;
    true units over the model's."""

    distances: np.ndarray
    angles: np.ndarray
    scale: float


def similarity(points: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """(scale, rotation, shift) that takes points (N, 3) nearest to targets. Umeyama, PAMI 1991."""
    a, b = points - points.mean(axis=0), targets - targets.mean(axis=0)
    u, s, vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = (u * signs) @ vt
    scale = (s * signs).sum() / (a**2).sum()
    return scale, rotation, targets.mean(axis=0) - scale * rotation @ points.mean(axis=0)


def compare(model: Path, truth: Path) -> Comparison:
    """model, truth: scene folders. Photographs are paired by name."""
    found, true = _poses(model), _poses(truth)
    names = sorted(found.keys() & true.keys())
    centres, wanted, every = (
        np.array([-w[:3, :3].T @ w[:3, 3] for w in poses])
        for poses in ([found[n] for n in names], [true[n] for n in names], true.values())
    )
    scale, rotation, shift = similarity(centres, wanted)
    extent = 1.1 * np.linalg.norm(every - every.mean(axis=0), axis=1).max()
    distances = np.linalg.norm(scale * centres @ rotation.T + shift - wanted, axis=1) / extent
    cosines = [(np.trace(rotation @ found[n][:3, :3].T @ true[n][:3, :3]) - 1) / 2 for n in names]
    return Comparison(distances, np.degrees(np.arccos(np.clip(cosines, -1, 1))), scale)


def _poses(folder: Path) -> dict[str, np.ndarray]:
    return {image.name: image.w2c for image in read_model(folder / "sparse/0")[1].values()}
