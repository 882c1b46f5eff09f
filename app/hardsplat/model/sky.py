"""The sky of a scene: colours of directions, as they lie behind all splats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardsplat.model.camera import quaternions
from hardsplat.model.gaussians import SH_C0, Gaussians

SIDE = 128  # texels a side: 1.6 degrees each
LEAST_SEEN = 0.02  # of a texel, for which it becomes splats
WELL_SEEN = 0.1  # of a texel, below which its colours come from those around it too
MARGIN = np.radians(6.0)  # beyond which there are none
_FINER = 2  # splats a texel and axis
_REACH = 0.65  # standard deviation of a splat over the distance to the next
_OPACITY = 0.99


@dataclass(frozen=True)
class Sky:
    """texels: (side^2, 4) float32, row by row: colour less 0.5, and the share of the texel that the
    training saw of late. Directions are those of the world; see octahedral.glsl."""

    texels: np.ndarray

    @classmethod
    def of_colors(cls, colors: np.ndarray) -> Sky:
        """colors: (side, side, 3), all of them seen. Raises ValueError for other shapes, and for
        numbers that are not finite."""
        colors = np.asarray(colors, np.float32)
        if colors.ndim != 3 or colors.shape[0] != colors.shape[1] or colors.shape[2] != 3:
            raise ValueError(f"a sky has shape {colors.shape}, expected (side, side, 3)")
        if not colors.size or not np.isfinite(colors).all():
            raise ValueError("a sky has a NaN or infinite number, or no texels")
        seen = np.ones((*colors.shape[:2], 1), np.float32)
        return cls(np.concatenate([colors - np.float32(0.5), seen], 2).reshape(-1, 4))

    @property
    def colors(self) -> np.ndarray:
        """(side, side, 3) float32."""
        return self.texels[:, :3].reshape(self.side, self.side, 3) + np.float32(0.5)

    @cached_property
    def side(self) -> int:
        return round(len(self.texels) ** 0.5)

    def filled(self) -> Sky:
        """The sky with colours where the training saw none: those of the surroundings, by averages
        over squares of twice the side each, from small ones to large ones (Gortler et al. 1996, the
        pull and push of the lumigraph)."""
        from scipy.ndimage import zoom

        seen = self.texels[:, 3].reshape(self.side, self.side, 1)
        levels = [(np.clip(seen / WELL_SEEN, 0, 1), self.colors)]
        while len(levels[-1][0]) % 2 == 0:
            share, colors = levels[-1]
            total, sums = _halved(share), _halved(share * colors)
            mean = np.where(total > 0, sums / np.maximum(total, 1e-9), 0.5)
            levels.append((np.clip(4 * total, 0, 1), mean))
        share, behind = levels.pop()
        behind = share * behind + (1 - share) * 0.5
        while levels:
            share, colors = levels.pop()
            wide = zoom(behind, (2, 2, 1), order=1, mode="nearest", grid_mode=True)
            behind = share * colors + (1 - share) * wide
        rest = (behind.reshape(-1, 3) - 0.5, self.texels[:, 3:])
        return Sky(np.concatenate(rest, axis=1).astype(np.float32))

    def lookup(self, directions: np.ndarray) -> np.ndarray:
        """(N, 4): colour, and how much is seen, in directions (N, 3) of any length."""
        at = octahedral(directions) * self.side - 0.5
        low = np.floor(at).astype(int)
        f, total = at - low, np.zeros((len(at), 4))
        for dy in (0, 1):
            for dx in (0, 1):
                weight = np.abs(1 - f[:, 0] - dx) * np.abs(1 - f[:, 1] - dy)
                where = _wrapped(low + [dx, dy], self.side)
                total += weight[:, None] * self.texels[where[:, 1] * self.side + where[:, 0]]
        return total + [0.5, 0.5, 0.5, 0]

    def _near_seen(self, directions: np.ndarray) -> np.ndarray:
        """(N,) bool: whether the training saw the sky within MARGIN of directions (N, 3)."""
        from scipy.spatial import cKDTree

        places = (np.mgrid[0 : self.side, 0 : self.side].reshape(2, -1)[::-1].T + 0.5) / self.side
        seen = directions_of(places[self.texels[:, 3] >= LEAST_SEEN])
        if not len(seen):
            return np.zeros(len(directions), bool)
        away, _ = cKDTree(seen).query(directions, distance_upper_bound=MARGIN)
        return np.isfinite(away)

    def splats(self, centre: np.ndarray, radius: float, sh_degree: int = 0) -> Gaussians:
        """The sky as splats on a sphere, for programs that draw nothing else: flat ones that face
        the centre, where the training saw the sky, and MARGIN around that."""
        n = _FINER * self.side
        v, u = (np.mgrid[0:n, 0:n].reshape(2, -1) + 0.5) / n
        towards = directions_of(np.stack([u, v], axis=1))
        found = self.lookup(towards)
        chosen = self._near_seen(towards)
        towards, found, at = towards[chosen], found[chosen], np.stack([u, v], axis=1)[chosen]
        # along two edges of its cell, from one side of it to the other
        edges = []
        for axis in (0, 1):
            step = np.zeros(2)
            step[axis] = 0.5 / n
            edges.append(directions_of(at + step) - directions_of(at - step))
        quats, lengths = _frames(towards, *edges)
        scales = np.concatenate([_REACH * lengths, np.full((len(at), 1), 1e-4)], axis=1) * radius
        sh = np.zeros((len(at), (sh_degree + 1) ** 2, 3), np.float32)
        sh[:, 0] = (np.maximum(found[:, :3], 0) - 0.5) / SH_C0
        means = np.asarray(centre) + radius * towards
        return Gaussians(means, quats, scales, np.full(len(at), _OPACITY), sh)


def _halved(values: np.ndarray) -> np.ndarray:
    """Means of squares of 2x2, (side, side, n)."""
    side = len(values) // 2
    return values.reshape(side, 2, side, 2, -1).mean(axis=(1, 3))


def octahedral(directions: np.ndarray) -> np.ndarray:
    """(N, 2) places in the unit square of directions (N, 3)."""
    d = directions / np.abs(directions).sum(axis=1, keepdims=True)
    away = np.where(d[:, :2] < 0, -1, 1)
    return 0.5 + 0.5 * np.where(d[:, 2:] < 0, (1 - np.abs(d[:, 1::-1])) * away, d[:, :2])


def directions_of(places: np.ndarray) -> np.ndarray:
    """(N, 3) unit directions of places (N, 2) in the unit square."""
    p = 2 * np.asarray(places, np.float64) - 1
    z = 1 - np.abs(p).sum(axis=1)
    folded = (1 - np.abs(p[:, ::-1])) * np.where(p < 0, -1, 1)
    d = np.concatenate([np.where(z[:, None] < 0, folded, p), z[:, None]], axis=1)
    return d / np.linalg.norm(d, axis=1, keepdims=True)


def _wrapped(at: np.ndarray, side: int) -> np.ndarray:
    """Texels (N, 2), x and y, within the square: an edge goes on on its other half."""
    x, y = at.T
    out = (x < 0) | (x >= side)
    x, y = np.clip(x, 0, side - 1), np.where(out, side - 1 - y, y)
    out = (y < 0) | (y >= side)
    return np.stack([np.where(out, side - 1 - x, x), np.clip(y, 0, side - 1)], axis=1)


def _frames(normals: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quaternions (N, 4) and half axes (N, 2) of ellipses that cover cells with edges a and b, all
    (N, 3), across their normals: those of the covariance a a^T + b b^T."""
    first = a / np.linalg.norm(a, axis=1, keepdims=True)
    second = np.cross(normals, first)
    in_plane = np.stack([[(e * axis).sum(1) for axis in (first, second)] for e in (a, b)])
    covariance = np.einsum("ein,ejn->nij", in_plane, in_plane)
    values, vectors = np.linalg.eigh(covariance)
    axes = [vectors[:, 0, k, None] * first + vectors[:, 1, k, None] * second for k in (0, 1)]
    axes.append(np.cross(*axes))
    return quaternions(np.stack(axes, axis=2)), np.sqrt(np.maximum(values, 1e-12))
