"""The sky of a scene: colours of directions, as they lie behind all splats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

WELL_SEEN = 0.1  # of a texel, below which its colours come from those around it too


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

    @classmethod
    def of_planes(cls, planes: Mapping[str, np.ndarray]) -> Sky | None:
        """What trained values, (planes, items, width) by name, have of one."""
        texels = planes.get("sky")
        return None if texels is None or not texels.size else cls(texels[0])

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
