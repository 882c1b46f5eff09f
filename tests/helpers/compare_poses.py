"""Compares the poses of a COLMAP model with the true ones, after the similarity that fits their
camera centres best.

    python -m tests.helpers.compare_poses MODEL TRUTH

Both are folders with cameras, images and points3D, or scene folders. Photographs are paired by
name. Distances are shares of the scene's extent, 1.1 times the largest distance of a true camera
from the mean of them, as in training.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap import read_model


@dataclass(frozen=True)
class Comparison:
    """total: photographs with a true pose. names: those that have one in both models. distances:
    (N,) shares of the extent; angles: (N,) degrees.

    scale: true units over the model's.
    """

    total: int
    names: list[str]
    distances: np.ndarray
    angles: np.ndarray
    scale: float

    def __str__(self) -> str:
        d, a = 100 * self.distances, self.angles
        return (
            f"{len(self.names)} of {self.total} photographs; position mean {d.mean():.3f} "
            f"%, median {np.median(d):.3f} %, largest {d.max():.3f} % of the extent "
            f"({self.names[int(d.argmax())]}); rotation mean {a.mean():.3f}, largest "
            f"{a.max():.3f} degrees"
        )


def similarity(points: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Scale, rotation (3, 3) and shift (3,) for which scale * rotation @ points + shift is nearest
    to targets, both (N, 3). Umeyama, PAMI 1991."""
    a, b = points - points.mean(axis=0), targets - targets.mean(axis=0)
    u, s, vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = (u * signs) @ vt
    scale = (s * signs).sum() / (a**2).sum()
    return scale, rotation, targets.mean(axis=0) - scale * rotation @ points.mean(axis=0)


def compare(model: Path, truth: Path) -> Comparison:
    """Raises UserError where a model cannot be read, or fewer than 3 photographs are in both."""
    found, true = _poses(model), _poses(truth)
    names = sorted(found.keys() & true.keys())
    if len(names) < 3:
        raise UserError(
            f"{model} and {truth}: only {len(names)} photographs have the same name, too "
            "few to align"
        )
    centres, wanted = (
        np.array([-w[:3, :3].T @ w[:3, 3] for w in (poses[n] for n in names)])
        for poses in (found, true)
    )
    scale, rotation, shift = similarity(centres, wanted)
    every = np.array([-w[:3, :3].T @ w[:3, 3] for w in true.values()])
    extent = 1.1 * np.linalg.norm(every - every.mean(axis=0), axis=1).max()
    distances = np.linalg.norm(scale * centres @ rotation.T + shift - wanted, axis=1) / extent
    cosines = [(np.trace(rotation @ found[n][:3, :3].T @ true[n][:3, :3]) - 1) / 2 for n in names]
    return Comparison(
        len(true), names, distances, np.degrees(np.arccos(np.clip(cosines, -1, 1))), scale
    )


def _poses(folder: Path) -> dict[str, np.ndarray]:
    inside = next((f for f in (folder / "sparse" / "0", folder / "sparse") if f.is_dir()), folder)
    return {image.name: image.w2c for image in read_model(inside)[1].values()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("truth", type=Path)
    flags = parser.parse_args()
    try:
        print(compare(flags.model, flags.truth))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
