"""A part of a scene in which splats may grow: a box, upright or along the axes, or a sphere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardsplat.base.errors import UserError

COARSE = 0.02  # how likely splats outside of a place are to grow, over those inside
OPEN = 1e30  # world units: a side without a border lies there

Three = tuple[float, float, float]


@dataclass(frozen=True)
class Region:
    """axes: three directions, (3,) each, along which positions are measured; zeros: not at all.
    low, high: borders along them, world units. centre, radius: of the sphere around all. outside:
    how likely a splat outside is to grow, over the same one inside."""

    axes: tuple[Three, Three, Three]
    low: Three
    high: Three
    centre: Three = (0.0, 0.0, 0.0)
    radius: float = OPEN
    outside: float = 0.0

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Region:
        """A box of six numbers x0 y0 z0 x1 y1 z1, or a sphere of four x y z radius, outside of
        which little grows. Raises UserError for anything else."""
        given = "--region " + ",".join(f"{number:g}" for number in numbers)
        if len(numbers) == 4:
            if not numbers[3] > 0:
                raise UserError(f"{given}: the radius of a sphere must be positive")
            x, y, z, radius = map(float, numbers)
            return cls(_WORLD, (-OPEN,) * 3, (OPEN,) * 3, (x, y, z), radius, COARSE)
        if len(numbers) != 6:
            wanted = "a box is x0,y0,z0,x1,y1,z1 and a sphere x,y,z,radius"
            raise UserError(f"{given}: has {len(numbers)} numbers; {wanted}")
        x0, y0, z0, x1, y1, z1 = map(float, numbers)
        if not (x0 < x1 and y0 < y1 and z0 < z1):
            raise UserError(f"{given}: the second corner must be larger along x, y and z")
        return cls(_WORLD, (x0, y0, z0), (x1, y1, z1), outside=COARSE)

    def inside(self, means: np.ndarray) -> np.ndarray:
        """(N,) bool of (N, 3) means, half-open: a border belongs to the box above it."""
        points = means.astype(np.float64)
        places = points @ np.array(self.axes).T
        within = np.all((places >= self.low) & (places < self.high), axis=1)
        return within & (np.linalg.norm(points - self.centre, axis=1) < self.radius)

    def samples(self) -> np.ndarray:
        """(N, 3) places spread over a box along the world's axes, or over a sphere."""
        ends = np.array([self.low, self.high])
        if self.radius < OPEN:
            ends = np.array(self.centre) + np.array([[-self.radius], [self.radius]])
        steps = (np.arange(5) + 0.5) / 5
        grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
        places = ends[0] + grid * (ends[1] - ends[0])
        return places[self.inside(places)]

    def constants(self) -> dict[str, float]:
        """The specialization constants of shaders/densify/budget/region.glsl."""
        names = "UX UY UZ VX VY VZ WX WY WZ LOW_U LOW_V LOW_W HIGH_U HIGH_V HIGH_W CX CY CZ "
        names += "RADIUS OUTSIDE"
        ends = (*self.low, *self.high, *self.centre, self.radius, self.outside)
        values = (*np.ravel(self.axes), *ends)
        pairs = zip(names.split(), values, strict=True)
        return {f"REGION_{name}": float(value) for name, value in pairs}


_WORLD = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
