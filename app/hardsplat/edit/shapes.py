"""Shapes that select splats by their centres."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.model.camera import Camera, rotation_matrix

MOST_DABS = 10_000  # of a brush
FARTHEST = 1e9  # world units, and pixels


class Shape(Protocol):
    def inside(self, means: np.ndarray) -> np.ndarray:
        """(N,) bool of (N, 3) world units."""
        ...

    def words(self) -> dict[str, Any]:
        """What `shape_of` makes the shape of again, fit for JSON."""
        ...


def numbers(what: str, value: Any, count: int, most: float = FARTHEST) -> tuple[float, ...]:
    """`count` finite numbers. what: names them in the error. Raises UserError."""
    fits = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count
    if not fits or not all(type(v) in (int, float) and abs(v) <= most for v in value):
        raise UserError(f"{what}: expected {count} numbers within {most:g}, got {str(value)[:60]}")
    return tuple(float(v) for v in value)


def unit(quat: Sequence[float]) -> np.ndarray:
    """(4,) wxyz of length 1. Raises UserError for one that has none."""
    length = math.hypot(*quat)
    if length < 1e-3:
        raise UserError("quat: expected a rotation wxyz, got one of length 0")
    return np.array(quat) / length


@dataclass(frozen=True)
class TurnedBox:
    """low, high: corners, world units, of a box that is turned about its middle by quat (wxyz)."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    quat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)

    def inside(self, means: np.ndarray) -> np.ndarray:
        low, high = np.minimum(self.low, self.high), np.maximum(self.low, self.high)
        middle = (low + high) / 2
        local = (means - middle) @ rotation_matrix(*unit(self.quat)) + middle
        return ((local >= low) & (local <= high)).all(axis=1)

    def words(self) -> dict[str, Any]:
        turned = {} if self.quat == (1.0, 0.0, 0.0, 0.0) else {"quat": self.quat}
        return {"box": [*self.low, *self.high], **turned}

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> TurnedBox:
        six = numbers("box", words["box"], 6)
        quat = numbers("quat", words.get("quat", (1, 0, 0, 0)), 4, 10.0)
        return cls(six[:3], six[3:], tuple(unit(quat).tolist()))


@dataclass(frozen=True)
class Sphere:
    """centre and radius in world units."""

    centre: tuple[float, ...]
    radius: float

    def inside(self, means: np.ndarray) -> np.ndarray:
        return np.linalg.norm(means.astype(np.float64) - self.centre, axis=1) <= self.radius

    def words(self) -> dict[str, Any]:
        return {"sphere": [*self.centre, self.radius]}

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Sphere:
        *centre, radius = numbers("sphere", words["sphere"], 4)
        return cls(tuple(centre), radius)


@dataclass(frozen=True)
class Pinhole:
    """A camera that a shape was drawn through. w2c: (3, 4) world to camera, row by row. lens: fx,
    fy, cx, cy in px."""

    w2c: tuple[float, ...]
    lens: tuple[float, ...]

    def seen(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which of (N, 3) are in front of the camera, and their x and y in px."""
        pose, (fx, fy, cx, cy) = np.reshape(self.w2c, (3, 4)), self.lens
        x, y, z = (means.astype(np.float64) @ pose[:, :3].T + pose[:, 3]).T
        front = np.flatnonzero(z > 1e-6)
        return front, fx * x[front] / z[front] + cx, fy * y[front] / z[front] + cy

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Pinhole:
        return cls(*(numbers(n, words.get(n), k) for n, k in (("w2c", 12), ("lens", 4))))

    @classmethod
    def like(cls, camera: Camera) -> Pinhole:
        """The pinhole of a camera, without its lens distortion."""
        K = camera.K
        lens = float(K[0, 0]), float(K[1, 1]), float(K[0, 2]), float(K[1, 2])
        return cls(tuple(camera.w2c[:3].ravel().tolist()), lens)


@dataclass(frozen=True)
class Brush:
    """Selects what a camera sees under discs, however far. dabs: (x, y, radius) in px of each."""

    camera: Pinhole
    dabs: tuple[tuple[float, ...], ...]

    def inside(self, means: np.ndarray) -> np.ndarray:
        front, x, y = self.camera.seen(means)
        under = [(x - u) ** 2 + (y - v) ** 2 <= radius**2 for u, v, radius in self.dabs]
        return _at(front[np.any(under, axis=0)], len(means))

    def words(self) -> dict[str, Any]:
        return {"brush": self.dabs, **vars(self.camera)}

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Brush:
        dabs = words["brush"]
        if not isinstance(dabs, Sequence) or not 0 < len(dabs) <= MOST_DABS:
            raise UserError(f"brush: expected a list of 1 to {MOST_DABS} discs")
        return cls(Pinhole.of(words), tuple(numbers("brush: a disc", dab, 3) for dab in dabs))


@dataclass(frozen=True)
class Rectangle:
    """Selects what a camera sees within a rectangle, however far. sides: x0, y0, x1, y1 in px."""

    camera: Pinhole
    sides: tuple[float, ...]

    def inside(self, means: np.ndarray) -> np.ndarray:
        front, x, y = self.camera.seen(means)
        (left, right), (top, bottom) = sorted(self.sides[::2]), sorted(self.sides[1::2])
        within = (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
        return _at(front[within], len(means))

    def words(self) -> dict[str, Any]:
        return {"rectangle": self.sides, **vars(self.camera)}

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Rectangle:
        return cls(Pinhole.of(words), numbers("rectangle", words["rectangle"], 4))


def _at(which: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros(count, bool)
    out[which] = True
    return out


SHAPES: dict[str, Callable[[Mapping[str, Any]], Shape]] = {
    "box": TurnedBox.of,
    "sphere": Sphere.of,
    "brush": Brush.of,
    "rectangle": Rectangle.of,
}
_CAMERA = {"w2c", "lens"}
_FURTHER = {"box": {"quat"}, "sphere": set[str](), "brush": _CAMERA, "rectangle": _CAMERA}


def shape_of(words: Mapping[str, Any]) -> Shape:
    """The shape that a step of an edit file describes. Raises UserError."""
    named = SHAPES.keys() & words.keys()
    if len(named) != 1 or words.keys() - named - _FURTHER[min(named)]:
        raise UserError(f"expected one shape, {', '.join(SHAPES)}, got {', '.join(words)[:60]}")
    return SHAPES[min(named)](words)


def shapes_from_flag(flag: str, words: Sequence[str]) -> list[Shape]:
    """The shapes that words of the command line describe, each box X0 Y0 Z0 X1 Y1 Z1 or sphere X Y
    Z RADIUS. Raises UserError."""
    groups: list[list[str]] = []
    for word in words:
        if word in SHAPES or not groups:
            groups.append([])
        groups[-1].append(word)
    try:
        return [shape_of({name: [float(word) for word in rest]}) for name, *rest in groups]
    except (UserError, ValueError):
        wanted = "expected box X0 Y0 Z0 X1 Y1 Z1, or sphere X Y Z RADIUS"
        raise UserError(f"{flag} {' '.join(map(str, words))}: {wanted}") from None
