"""Chooses the photographs that each block trains on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hardsplat.blocks.cut import BlockBox
from hardsplat.model.camera import Camera

LEAST_WEIGHT = 0.05  # share of what a photograph shows that lies in a block which trains on it
LEAST_POINTS = 50  # points of a block that a camera in it must see more of
MOST = 1_500  # photographs a block, those with the largest share first


def shares(
    boxes: Sequence[BlockBox], places: np.ndarray, weights: Iterable[np.ndarray]
) -> np.ndarray:
    """(V, B) share of each block in the blended weight of each photograph.

    places: (N, 2) of the splats. weights: for each photograph (N,), sums of alpha times the
    transmittance in front over its pixels.
    """
    owner = np.full(len(places), len(boxes))
    for number, box in enumerate(boxes):
        owner[box.holds(places)] = number
    sums = np.array([np.bincount(owner, w, len(boxes) + 1)[: len(boxes)] for w in weights])
    return sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-30)


def photographs_of(
    box: BlockBox,
    share: np.ndarray,
    cameras: Sequence[Camera],
    axes: np.ndarray,
    points: np.ndarray,
) -> list[int]:
    """Indices of the photographs of a block, most share first.

    share: (V,) of the block in each photograph. axes: (2, 3) horizontal. points: (P, 3) of the
    scene, world units.
    """
    within = points[box.holds(points @ axes.T)]
    standing = box.holds(np.array([camera.position for camera in cameras]) @ axes.T)
    chosen = [
        v
        for v in np.argsort(-share, kind="stable")
        if share[v] >= LEAST_WEIGHT or (standing[v] and _seen(cameras[v], within) > LEAST_POINTS)
    ]
    return [int(v) for v in chosen[:MOST]]


def _seen(camera: Camera, points: np.ndarray) -> int:
    """How many of (P, 3) points are in front of a camera and within its image."""
    pixels, depths = camera.projected(points)
    inside = ((pixels >= 0) & (pixels < (camera.width, camera.height))).all(axis=1)
    return int((inside & (depths > 1e-6)).sum())
