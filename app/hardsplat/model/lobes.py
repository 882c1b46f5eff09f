"""Lobes of view-dependent colour, see shaders/include/lobes.glsl: their values, and the spherical
harmonics that look most like them from where cameras see a splat."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from hardsplat.base.parallel import in_blocks
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.harmonics import basis

NAMES = ("lobe_colors", "lobe_axes")
DEGREE = 3  # of the harmonics
_BLOCK = 1 << 11  # splats that a thread fits at a time
_MOST = 64  # cameras, evenly spaced, where their weights are not known
# Directions all around, and their share of the weight: they decide where no camera is.
AROUND, SHARE = 32, 0.02


def has_lobes(names: Container[str]) -> bool:
    """Whether further quantities of splats, by name, have lobes of colour among them."""
    return "lobe_axes" in names


def values(axes: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """(K, N, C) values of lobes of axes (K, N, 3) in unit directions (N, C, 3). A lobe whose square
    is beyond float32 is 0: nothing sees it."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(axes, axis=-1)[..., None]
        found = np.exp(length * np.einsum("kni,nci->knc", axes, directions) - length**2)
    return np.nan_to_num(found, copy=False)


def onlookers(cameras: Sequence[Camera]) -> list[Camera]:
    """Those cameras that say from where splats are seen."""
    return [cameras[i] for i in spread(len(cameras), _MOST)]


def without_lobes(
    gaussians: Gaussians,
    cameras: Sequence[Camera] = (),
    weights: np.ndarray | None = None,
    sh_degree: int = DEGREE,
) -> Gaussians:
    """The splats with SH instead of their lobes, by least squares over the directions in which
    cameras see each; as they are where they have none.

    weights: (cameras, N), how much each camera sees of each splat; by default those that have its
    mean in their image see it alike. Without a camera all directions count alike. Memory besides
    the outcome: a byte per splat and camera.
    """
    if not has_lobes(gaussians.extra):
        return gaussians
    if weights is None:
        cameras = onlookers(cameras)
        weights = np.zeros((len(cameras), len(gaussians)), bool)
        for row, camera in zip(weights, cameras):
            row[camera.pixels(gaussians.means)[0]] = True
    eyes = np.array([camera.position for camera in cameras], np.float32).reshape(-1, 3)
    sh = np.zeros((len(gaussians), (sh_degree + 1) ** 2, 3), np.float32)

    def fit(rows: slice) -> None:
        sh[rows] = _fitted(gaussians, rows, eyes, weights[:, rows], sh_degree)

    in_blocks(len(gaussians), _BLOCK, fit)
    extra = {name: v for name, v in gaussians.extra.items() if name not in NAMES}
    return replace(gaussians, sh=sh, extra=extra, check=False)


def _fitted(
    gaussians: Gaussians, rows: slice, eyes: np.ndarray, weights: np.ndarray, sh_degree: int
) -> np.ndarray:
    """(n, (sh_degree + 1)^2, 3) SH of some of the splats. eyes: (C, 3). weights: (C, n)."""
    means, own = gaussians.means[rows], gaussians.sh[rows]
    axes, colors = (gaussians.extra[name][:, rows] for name in ("lobe_axes", "lobe_colors"))
    directions = np.broadcast_to(around(), (len(means), AROUND, 3))
    if not len(eyes):  # one matrix solves for all splats
        found = values(axes, directions) @ np.linalg.pinv(basis(around(), sh_degree)).T
        solved = found.transpose(1, 2, 0)
    else:
        rays = means[:, None] - eyes
        rays /= np.maximum(np.linalg.norm(rays, axis=2, keepdims=True), 1e-20)
        directions = np.concatenate([rays, directions], axis=1)
        seen = weights.T.astype(np.float32)
        seen /= np.maximum(seen.sum(axis=1, keepdims=True), 1e-20)
        least = np.full((len(means), AROUND), SHARE / AROUND, np.float32)
        weight = np.concatenate([seen, least], axis=1)
        Y = basis(directions, sh_degree)
        weighed = (Y * weight[..., None]).transpose(0, 2, 1)
        lobes = values(axes, directions).transpose(1, 2, 0)
        solved = np.linalg.solve(weighed @ Y, weighed @ lobes)
    sh = np.einsum("npk,knc->npc", solved, colors)
    bands = min(own.shape[1], sh.shape[1])
    sh[:, :bands] += own[:, :bands]
    return sh


def around() -> np.ndarray:
    """(AROUND, 3) float32 unit directions, evenly spread."""
    i = np.arange(AROUND) + 0.5
    z, turn = 1 - 2 * i / AROUND, i * np.pi * (3 - np.sqrt(5))
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(turn), r * np.sin(turn), z], axis=1).astype(np.float32)
