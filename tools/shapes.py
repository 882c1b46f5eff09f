"""The four unit shapes of the ray tracer, each in its own frame.

Every shape has
    intersect(o, d)       (3, N) origins and directions -> (N,) smallest t > T_MIN with o + t d on
        the surface, or inf
    normal(p)             (3, N) surface points -> (3, N) outward normals, of any length
    chart(p)              (3, N) surface points -> (N,) face number and (N,) u, v in 0..1: where
        their baked light is kept
    unchart(face, u, v)   the way back, for one face
    extent(face, half)    width and height of a face in metres, for a shape scaled by half (3,)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

T_MIN = 1e-4  # metres; nearer hits are the surface the ray starts on


class Sheet:
    """The square |x|, |y| <= 1 at z = 0, lit from +z."""

    faces = 1

    def intersect(self, o, d):
        t = -o[2] / _nonzero(d[2])
        inside = (np.abs(o[0] + t * d[0]) <= 1) & (np.abs(o[1] + t * d[1]) <= 1)
        return np.where(inside & (t > T_MIN), t, np.inf)

    def normal(self, p):
        return np.stack([0 * p[0], 0 * p[0], 1 + 0 * p[0]])

    def chart(self, p):
        return np.zeros(p.shape[1], int), (p[0] + 1) / 2, (p[1] + 1) / 2

    def unchart(self, face, u, v):
        return np.stack([2 * u - 1, 2 * v - 1, 0 * u])

    def extent(self, face, half):
        return 2 * half[0], 2 * half[1]


class Box:
    """The cube [-1, 1]^3. Face = 2 * axis + (1 on the positive side)."""

    faces = 6

    def intersect(self, o, d):
        inverse = 1 / _nonzero(d)
        a, b = (-1 - o) * inverse, (1 - o) * inverse
        near, far = np.minimum(a, b).max(0), np.maximum(a, b).min(0)
        t = np.where(near > T_MIN, near, far)
        return np.where((far >= near) & (t > T_MIN), t, np.inf)

    def normal(self, p):
        axis = np.abs(p).argmax(0)
        return np.where(axis == np.arange(3)[:, None], np.sign(p), 0)

    def chart(self, p):
        axis = np.abs(p).argmax(0)
        u, v, w = (np.take_along_axis(p, ((axis + k) % 3)[None], 0)[0] for k in (1, 2, 0))
        return 2 * axis + (w > 0), (u + 1) / 2, (v + 1) / 2

    def unchart(self, face, u, v):
        return np.roll(
            np.stack([np.full_like(u, face % 2 * 2 - 1), 2 * u - 1, 2 * v - 1]), face // 2, axis=0
        )

    def extent(self, face, half):
        axis = face // 2
        return 2 * half[(axis + 1) % 3], 2 * half[(axis + 2) % 3]


@dataclass(frozen=True)
class Frustum:
    """A capped cone along z in [-1, 1]: radius 1 at the bottom, `top` at the top. Faces: side,
    bottom, top."""

    top: float = 1.0
    faces = 3

    @property
    def _slope(self):
        return (self.top - 1) / 2

    def _radius(self, z):
        return (1 + self.top) / 2 + self._slope * z

    def intersect(self, o, d):
        # The side solves x^2 + y^2 = radius(z)^2 along the ray: a t^2 + 2 b t + c = 0.
        k, r = self._slope, self._radius(o[2])
        a = _nonzero(d[0] ** 2 + d[1] ** 2 - (k * d[2]) ** 2)
        b = o[0] * d[0] + o[1] * d[1] - k * d[2] * r
        root = b * b - a * (o[0] ** 2 + o[1] ** 2 - r * r)
        s = np.sqrt(np.maximum(root, 0))
        best = np.full_like(a, np.inf)
        for t in ((-b - s) / a, (-b + s) / a):
            hit = (root >= 0) & (np.abs(o[2] + t * d[2]) <= 1) & (t > T_MIN)
            best = np.where(hit, np.minimum(best, t), best)
        for z in (-1, 1):
            t = (z - o[2]) / _nonzero(d[2])
            hit = (o[0] + t * d[0]) ** 2 + (o[1] + t * d[1]) ** 2 <= self._radius(z) ** 2
            best = np.where(hit & (t > T_MIN), np.minimum(best, t), best)
        return best

    def _cap(self, p):
        # A side point this close to a cap is told from it by its radius.
        flat = (np.abs(p[2]) > 1 - 1e-4) & (
            np.hypot(p[0], p[1]) < self._radius(np.sign(p[2])) * (1 - 1e-4)
        )
        return np.where(flat, np.where(p[2] > 0, 2, 1), 0)

    def normal(self, p):
        cap = self._cap(p)
        side = np.stack([p[0], p[1], -self._slope * self._radius(p[2])])
        return np.where(cap > 0, np.stack([0 * p[0], 0 * p[0], 2.0 * cap - 3]), side)

    def chart(self, p):
        cap, width = self._cap(p), 2 * max(1, self.top)
        u = np.where(cap > 0, p[0] / width, np.arctan2(p[1], p[0]) / (2 * np.pi)) + 0.5
        return cap, u, np.where(cap > 0, p[1] / width + 0.5, (p[2] + 1) / 2)

    def unchart(self, face, u, v):
        if face == 0:
            angle, z = (2 * u - 1) * np.pi, 2 * v - 1
            return np.stack([self._radius(z) * np.cos(angle), self._radius(z) * np.sin(angle), z])
        width = 2 * max(1, self.top)
        # The corners of the square chart are pulled onto the disc, where there is a surface to
        # light.
        p = np.stack([u - 0.5, v - 0.5]) * width
        limit = self._radius(2 * face - 3) * 0.999
        p *= np.minimum(1, limit / np.maximum(np.hypot(*p), 1e-6))
        return np.stack([*p, np.full_like(u, 2 * face - 3)])

    def extent(self, face, half):
        width = max(1, self.top) * half[0]
        return (2 * np.pi * width, 2 * half[2]) if face == 0 else (2 * width, 2 * width)


class Sphere:
    """The unit ball, also usable from within."""

    faces = 1

    def intersect(self, o, d):
        a, b = (d * d).sum(0), (o * d).sum(0)
        root = b * b - a * ((o * o).sum(0) - 1)
        s = np.sqrt(np.maximum(root, 0))
        t = np.where(-b - s > T_MIN * a, -b - s, -b + s) / a
        return np.where((root >= 0) & (t > T_MIN), t, np.inf)

    def normal(self, p):
        return p

    def chart(self, p):
        return np.zeros(p.shape[1], int), np.arctan2(p[1], p[0]) / (2 * np.pi) + 0.5, (p[2] + 1) / 2

    def unchart(self, face, u, v):
        angle, z = (2 * u - 1) * np.pi, 2 * v - 1
        r = np.sqrt(1 - z * z)
        return np.stack([r * np.cos(angle), r * np.sin(angle), z])

    def extent(self, face, half):
        return 2 * np.pi * half[0], 2 * half[2]


def _nonzero(x):
    return np.where(np.abs(x) < 1e-9, np.float32(1e-9), x)
