"""Cameras between photographs, from where people look at a result next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation, Slerp

from hardsplat.model.camera import Camera

PLACES = 0.25, 0.5, 0.75  # on the line from one photograph to the next
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
    # to the tree, 0 is no line at all
    lengths = cdist(positions, positions) + np.finfo(float).tiny
    tree = minimum_spanning_tree(np.where(alike, lengths, 0)).tocoo()
    order = np.argsort(-tree.data, kind="stable")
    return list(zip(tree.row[order].tolist(), tree.col[order].tolist(), strict=True))


def between(first: Camera, second: Camera) -> list[Camera]:
    """Pinholes at PLACES from the one to the other, and turned by these shares of the way, with the
    first one's image."""
    ends = Rotation.from_matrix([first.w2c[:3, :3], second.w2c[:3, :3]])
    found = []
    for t, pose in zip(PLACES, Slerp([0, 1], ends)(PLACES).as_matrix(), strict=True):
        w2c = np.eye(4)
        w2c[:3, :3] = pose
        w2c[:3, 3] = -pose @ ((1 - t) * first.position + t * second.position)
        found.append(Camera(w2c, first.K, first.width, first.height))
    return found
