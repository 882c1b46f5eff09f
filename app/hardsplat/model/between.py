"""Cameras between photographs and beyond the last, from where people look at a result next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from hardsplat.model.camera import Camera

# shares of the way from a photograph to the next; below 0 away from it
BETWEEN, BEYOND = (0.25, 0.5, 0.75), (-0.5, -1.0)
TURN = 60.0  # degrees from one photograph to the next, at most


def neighbours(cameras: Sequence[Camera]) -> list[tuple[int, int]]:
    """Pairs of cameras, of which none are turned by more than TURN, that join by the shortest lines
    all that can be joined so; the farthest from each other first."""
    if not cameras:
        return []
    positions = np.array([camera.position for camera in cameras])
    poses = np.array([camera.w2c[:3, :3] for camera in cameras])
    traces = np.tensordot(poses, poses, ((1, 2), (1, 2)))
    alike = traces >= 1 + 2 * np.cos(np.radians(TURN))
    lengths = cdist(positions, positions)
    # to the tree, what is nearly 0 is no line at all
    lengths = 1 + lengths / (lengths.max() or 1)
    tree = minimum_spanning_tree(np.where(alike, lengths, 0)).tocoo()
    order = np.argsort(-tree.data, kind="stable")
    return list(zip(tree.row[order].tolist(), tree.col[order].tolist(), strict=True))


def along(first: Camera, second: Camera, places: Sequence[float] = BETWEEN) -> list[Camera]:
    """Pinholes at these shares of the way from the one to the other, and turned by as much, with
    the first one's image."""
    ends = Rotation.from_matrix([first.w2c[:3, :3], second.w2c[:3, :3]])
    turn = (ends[1] * ends[0].inv()).as_rotvec()
    found = []
    for t in places:
        pose = (Rotation.from_rotvec(t * turn) * ends[0]).as_matrix()
        w2c = np.eye(4)
        w2c[:3, :3] = pose
        w2c[:3, 3] = -pose @ ((1 - t) * first.position + t * second.position)
        found.append(Camera(w2c, first.K, first.width, first.height))
    return found


def beyond(cameras: Sequence[Camera], pairs: Sequence[tuple[int, int]], most: int) -> list[Camera]:
    """Pinholes BEYOND the last camera of a row, which is one with a single neighbour. Places to
    which another camera is nearer are left out. pairs: of neighbours. most: last cameras that are
    looked at, in the order of pairs."""
    of = Counter(i for pair in pairs for i in pair)
    rows = [(a, b) for pair in pairs for a, b in (pair, pair[::-1]) if of[a] == 1][:most]
    if not rows:
        return []
    positions = np.array([camera.position for camera in cameras])
    found = [(a, c) for a, b in rows for c in along(cameras[a], cameras[b], BEYOND)]
    away = cdist([camera.position for _, camera in found], positions)
    nearest = (1 + 1e-9) * away.min(axis=1)
    return [c for (a, c), d, least in zip(found, away, nearest, strict=True) if d[a] <= least]
