"""A part of a scene in which splats may grow: an upright box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

OPEN = 1e30  # world units: a side without a border lies there


@dataclass(frozen=True)
class Region:
    """axes: two horizontal unit vectors, (3,) each, along which positions are measured. low, high:
    borders along them, world units."""

    axes: tuple[tuple[float, float, float], tuple[float, float, float]]
    low: tuple[float, float]
    high: tuple[float, float]

    @classmethod
    def everywhere(cls) -> Region:
        """A region without borders."""
        return cls(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), (-OPEN, -OPEN), (OPEN, OPEN))

    def inside(self, means: np.ndarray) -> np.ndarray:
        """(N,) bool of (N, 3) means, half-open: a border belongs to the box above it."""
        places = means.astype(np.float64) @ np.array(self.axes).T
        return np.all((places >= self.low) & (places < self.high), axis=1)

    def constants(self) -> dict[str, float]:
        """The specialization constants of shaders/densify/budget/region.glsl."""
        names = "UX UY UZ VX VY VZ LOW_U LOW_V HIGH_U HIGH_V".split()
        values = (*self.axes[0], *self.axes[1], *self.low, *self.high)
        return {f"REGION_{name}": float(value) for name, value in zip(names, values)}
