"""A small numpy ray tracer: affine copies of four unit shapes, procedural albedo, and sun and sky
light baked into texels.

Light is baked once instead of being sampled per pixel: every view then sees the very same shadows,
as a photographed static scene would show, and the cost of soft light does not grow with the number
of views.

Arrays of vectors are (3, N) float32, components first, so that reductions run along contiguous
memory. World frame: metres, +z up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from tools.shapes import Box, Frustum, Sheet, Sphere

CHUNK = 1 << 15  # rays per step: the temporaries stay in the processor's cache


@dataclass(frozen=True)
class Body:
    """A unit shape put into the world: p_world = turn @ (half * p_local) + centre.

    paint: (3, N) points in metres in the body's own frame -> (3, N) albedo, or emitted light where
    `emits`. gloss: strength of a broad sun highlight.
    """

    shape: Sheet | Box | Frustum | Sphere
    centre: tuple
    half: tuple
    paint: Callable[[np.ndarray], np.ndarray]
    turn: np.ndarray = None
    gloss: float = 0.0
    emits: bool = False

    def __post_init__(self):
        turn = np.eye(3) if self.turn is None else self.turn
        half = np.maximum(np.array(self.half, np.float32), 1e-6)
        object.__setattr__(self, "half", half)
        object.__setattr__(self, "matrix", (turn * half).astype(np.float32))
        object.__setattr__(self, "inverse", (turn / half).T.astype(np.float32))
        object.__setattr__(self, "centre", np.array(self.centre, np.float32)[:, None])

    def local(self, p):
        return self.inverse @ (p - self.centre)

    def intersect(self, o, d):
        return self.shape.intersect(self.local(o), self.inverse @ d)

    def normal(self, local):
        return unit(self.inverse.T @ self.shape.normal(local).astype(np.float32))


@dataclass(frozen=True)
class Sun:
    direction: np.ndarray  # (3,) unit, towards the sun
    colour: np.ndarray  # (3,) irradiance on a surface facing it
    # radians; far wider than the real one, for soft shadows that a few thousand splats can carry
    radius: float


class World:
    """Bodies with baked light. Colours are display values in 0..1 (tone mapped)."""

    def __init__(
        self,
        bodies: list[Body],
        sun: Sun,
        texel: float,
        rng: np.random.Generator,
        samples: int = 32,
    ):
        self.bodies, self.sun = bodies, sun
        self._lay_out(texel)
        self._bake(rng, samples)

    def trace(self, o, d):
        """(3, N) origins and directions -> (N,) distance in units of |d|, (N,) body number (-1:
        nothing hit)."""
        distance = np.full(d.shape[1], np.inf, np.float32)
        number = np.full(d.shape[1], -1)
        for k, body in enumerate(self.bodies):
            t = body.intersect(o, d)
            nearer = t < distance
            distance[nearer], number[nearer] = t[nearer], k
        return distance, number

    def look(self, o, d):
        """Rays -> (3, N) display colour and (N,) distance. Seen from within, a closed world leaves
        no ray without a hit."""
        colour, distance = np.empty_like(d), np.empty(d.shape[1], np.float32)
        for part in _chunks(d.shape[1]):
            distance[part], number = self.trace(o[:, part], d[:, part])
            radiance = self._radiance(o[:, part], d[:, part], distance[part], number)
            colour[:, part] = shown(radiance)
        return colour, distance

    def _radiance(self, o, d, distance, number):
        out = np.zeros_like(d)
        for k in np.unique(number[number >= 0]):
            body, mine = self.bodies[k], number == k
            p = o[:, mine] + distance[mine] * d[:, mine]
            local = body.local(p)
            colour = body.paint(local * body.half[:, None])
            if not body.emits:
                sun, sky = self._lookup(k, local)
                halfway = unit(self.sun.direction[:, None] - unit(d[:, mine]))
                shine = body.gloss * np.maximum((body.normal(local) * halfway).sum(0), 0) ** 12
                colour = colour * (sun + sky) + shine * sun
            out[:, mine] = colour
        return out

    def _lay_out(self, texel):
        """One flat atlas of texels; each face of each body owns a (height, width) block of it."""
        self.first, sizes, points, normals = [], [], [], []
        for body in self.bodies:
            self.first.append(len(sizes))
            for face in range(0 if body.emits else body.shape.faces):
                w, h = (
                    int(np.clip(np.ceil(e / texel), 4, 512))
                    for e in body.shape.extent(face, body.half)
                )
                v, u = np.mgrid[0:h, 0:w].reshape(2, -1).astype(np.float32)
                local = body.shape.unchart(face, (u + 0.5) / w, (v + 0.5) / h)
                sizes.append((h, w))
                points.append(body.matrix @ local.astype(np.float32) + body.centre)
                normals.append(body.normal(local))
        self.size = np.array(sizes)
        self.offset = np.concatenate([[0], np.cumsum(self.size.prod(1))])
        self.points, self.normals = np.concatenate(points, 1), np.concatenate(normals, 1)

    def _bake(self, rng, samples):
        self.sunlight, self.skylight = np.zeros((2, *self.points.shape), np.float32)
        facing = np.maximum(self.sun.direction @ self.normals, 0)
        self.sunlight += self._gather(np.flatnonzero(facing), rng, samples, self._sun_ray) * facing
        self._smooth(self.sunlight, 0.7)
        # Surfaces lit by the sun light their neighbours, so this pass needs the one before it.
        self.skylight += self._gather(np.arange(len(facing)), rng, samples, self._sky_ray)
        self._smooth(self.skylight, 1.5)

    def _gather(self, index, rng, samples, ray):
        """Mean light at texels `index` over stratified directions; each texel turns the pattern by
        its own random angle."""
        start = self.points + 1e-3 * self.normals
        out = np.zeros_like(start)
        for part in _chunks(len(index), CHUNK // samples):
            i = np.repeat(index[part], samples)
            rank = np.tile(np.arange(samples), len(i) // samples)
            spin = np.repeat(rng.random(len(i) // samples), samples)
            angle = 2 * np.pi * (rank * 0.618034 + spin)
            r = np.sqrt((rank + 0.5) / samples)
            light = ray(start[:, i], self.normals[:, i], r * np.cos(angle), r * np.sin(angle))
            out[:, index[part]] = light.reshape(3, -1, samples).mean(2)
        return out

    def _sun_ray(self, o, _, x, y):
        a, b = _tangents(self.sun.direction[:, None])
        d = (self.sun.direction[:, None] + self.sun.radius * (x * a + y * b)).astype(np.float32)
        blocked = np.zeros(o.shape[1], bool)
        for body in self.bodies:
            if not body.emits:
                blocked |= np.isfinite(body.intersect(o, d))
        return self.sun.colour[:, None] * ~blocked

    def _sky_ray(self, o, n, x, y):
        a, b = _tangents(n)  # a disc lifted onto the hemisphere is distributed by the cosine
        d = (x * a + y * b + np.sqrt(np.maximum(1 - x * x - y * y, 0)) * n).astype(np.float32)
        distance, number = self.trace(o, d)
        light = self._radiance(o, d, distance, number)
        # Later bounces are not traced: the first one stands in for them, and a constant keeps
        # corners from going black.
        solid = np.array([not body.emits for body in self.bodies])[number]
        return np.where(solid, 1.35 * light + 0.02, light)

    def _smooth(self, light, sigma):
        for face, (h, w) in enumerate(self.size):
            block = light[:, self.offset[face] : self.offset[face + 1]].reshape(3, h, w)
            block[:] = gaussian_filter(block, (0, sigma, sigma), mode="nearest")

    def _lookup(self, k, local):
        """Bilinear sun and sky light, each (3, N), at local points of body k."""
        face, u, v = self.bodies[k].shape.chart(local)
        face = face + self.first[k]
        h, w = self.size[face].T
        x, y = np.clip(u * w - 0.5, 0, w - 1), np.clip(v * h - 0.5, 0, h - 1)
        x0, y0 = np.minimum(x.astype(int), w - 2), np.minimum(y.astype(int), h - 2)
        fx = (x - x0).astype(np.float32)
        fy = (y - y0).astype(np.float32)
        at = self.offset[face] + y0 * w + x0
        corners = (
            (at, (1 - fx) * (1 - fy)),
            (at + 1, fx * (1 - fy)),
            (at + w, (1 - fx) * fy),
            (at + w + 1, fx * fy),
        )
        return [
            sum(light[:, i] * weight for i, weight in corners)
            for light in (self.sunlight, self.skylight)
        ]


def shown(radiance):
    """Display values of light: a film-like shoulder, so that nothing clips."""
    return (1 - np.exp(-1.1 * radiance)) ** (1 / 2.2)


def unit(v):
    return v / np.maximum(np.sqrt((v * v).sum(0)), 1e-12)


def _tangents(n):
    other = np.where(np.abs(n[2]) < 0.9, np.array([[0], [0], [1]]), np.array([[1], [0], [0]]))
    a = unit(np.cross(other, n, axis=0))
    return a, np.cross(n, a, axis=0)


def _chunks(n, size=CHUNK):
    return (slice(i, min(i + size, n)) for i in range(0, n, size))
