"""A complete k-d tree over points: cells with about as many of them each."""

from __future__ import annotations

import numpy as np


class CellTree:
    """2^depth cells of about as many points, cut at medians across the longest spread.

    points: (N, 3), N >= 1, a sample of those that are placed.
    """

    def __init__(self, points: np.ndarray, depth: int):
        self.depth = depth
        nodes = (1 << depth) - 1
        self._axis, self._cut = np.zeros(nodes, np.int64), np.zeros(nodes, np.float32)
        parts = [np.asarray(points, np.float32)]
        for node in range(nodes):
            part = parts[node]
            if len(part):
                axis = self._axis[node] = part.std(axis=0).argmax()
                cut = self._cut[node] = np.median(part[:, axis])
                left = part[:, axis] < cut
                parts += [part[left], part[~left]]
            else:
                parts += [part, part]
            parts[node] = part[:0]

    def cells(self, points: np.ndarray) -> np.ndarray:
        """(N,) int64 number of the cell of each point, from left to right."""
        node = np.zeros(len(points), np.int64)
        rows = np.arange(len(points))
        for _ in range(self.depth):
            right = points[rows, self._axis[node]] >= self._cut[node]
            node = 2 * node + 1 + right
        return node - ((1 << self.depth) - 1)
