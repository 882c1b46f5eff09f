"""Cameras between photographs, from where people look at a result next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardsplat.model.camera import Camera

PLACES = 0.25, 0.5, 0.75  # on the line from one photograph to the next
TURN = 60.0  # degrees from one photograph to the next, at most
WIDTH = 256  # px, at most, of their images


def neighbours(cameras: Sequence[Camera]) -> list[tuple[int, int]]:
    """Pairs of cameras, of which none are turned by more than TURN, that join by the shortest lines
    all that can be joined so: minimum spanning trees (Prim 1957)."""
    positions = np.array([camera.position for camera in cameras])
    poses = np.array([camera.w2c[:3, :3] for camera in cameras])
    near = np.full(len(cameras), np.inf)  # distances to those that are joined
    left, joined = np.ones(len(cameras), bool), np.zeros(len(cameras), int)
    pairs, last = [], 0
    for _ in cameras[1:]:
        left[last] = False
        alike = np.tensordot(poses, poses[last]) >= 1 + 2 * np.cos(np.radians(TURN))  # the trace
        distances = np.linalg.norm(positions - positions[last], axis=1)
        closer = alike & (distances < near)
        near[closer], joined[closer] = distances[closer], last
        last = int(np.flatnonzero(left)[np.argmin(near[left])])
        if np.isfinite(near[last]):
            pairs.append((int(joined[last]), last))
    return pairs


def between(first: Camera, second: Camera) -> list[Camera]:
    """Pinholes at PLACES from the one to the other, with the first one's image, of at most WIDTH
    px. Their turns are shares of that between both, or nearly."""
    a, b = first.w2c[:3, :3], second.w2c[:3, :3]
    width = min(first.width, WIDTH)
    size = width, max(round(first.height * width / first.width), 1)
    found = []
    for t in PLACES:
        u, _, v = np.linalg.svd((1 - t) * a + t * b)
        w2c = np.eye(4)
        w2c[:3, :3] = u @ v
        w2c[:3, 3] = -w2c[:3, :3] @ ((1 - t) * first.position + t * second.position)
        found.append(Camera(w2c, first.K, first.width, first.height).resized(*size))
    return found
