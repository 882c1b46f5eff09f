"""Things that move in the courtyard: people who walk, balls in the air, another sky. Each
photograph has its own, so none of them belongs to the scene.

They shade themselves and cast no shadow: what they change in a photograph is where they are seen.

`python -m tools.moving SCENE/moving RESULT/masks` compares the masks of `--transient masks` with
what moves in a scene of `tools.make_scene --walkers`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tools import courtyard
from tools.raytrace import Body, Sun, shown, unit
from tools.shapes import Frustum, Sphere

SKY = 0.5  # light from the sky on what moves
OTHER_SKY = 3  # of so many photographs one has other clouds
CLOTHES = (
    ((0.10, 0.22, 0.62), (0.14, 0.13, 0.16)),
    ((0.74, 0.72, 0.66), (0.16, 0.20, 0.34)),
    ((0.62, 0.08, 0.12), (0.30, 0.26, 0.20)),
    ((0.05, 0.42, 0.26), (0.70, 0.66, 0.56)),
)
BALLS = ((0.90, 0.16, 0.10), (0.10, 0.35, 0.85), (0.92, 0.78, 0.08))
SKIN, HAIR = (0.70, 0.46, 0.34), (0.12, 0.08, 0.06)


def actors(rng: np.random.Generator, eye: np.ndarray, view: int, sun: Sun) -> list[Body]:
    """Three or four people, two balls and, now and then, another sky, for the photograph taken
    from `eye` (3,), metres."""
    found = [] if view % OTHER_SKY else [_other_sky(rng.uniform(2.0, 5.0, 3))]
    places = _places(rng, eye, rng.integers(3, 5))
    for at, clothes in zip(places, rng.permutation(len(CLOTHES)), strict=False):
        found += _walker(at, rng.uniform(0.92, 1.08), *CLOTHES[clothes], sun)
    for x, y in _places(rng, eye, 2):
        radius, height = rng.uniform(0.16, 0.24), rng.uniform(0.5, 2.2)
        colour = BALLS[rng.integers(len(BALLS))]
        found.append(_shaded(Sphere(), (x, y, height), (radius,) * 3, colour, sun))
    return found


def cross(bodies: list[Body], o, d, colour, distance) -> np.ndarray:
    """Display colours (3, N) of rays that see what moves where it is nearest. colour, distance: of
    the world without."""
    colour, distance = colour.copy(), distance.copy()
    for body in bodies:
        t = body.intersect(o, d)
        ahead = t <= distance * (1 + 1e-6)
        distance[ahead] = t[ahead]
        local = body.local(o[:, ahead] + t[ahead] * d[:, ahead])
        colour[:, ahead] = shown(body.paint(local * body.half[:, None]))
    return colour


def _places(rng, eye, count) -> list[np.ndarray]:
    """(x, y) on the floor, off the fountain, and not so near that one fills the photograph."""
    found: list[np.ndarray] = []
    while len(found) < count:
        at = rng.uniform(-4.6, 4.6, 2)
        if np.hypot(*at) > 1.7 and np.hypot(*(at - eye[:2])) > 1.6:
            found.append(at)
    return found


def _other_sky(shift) -> Body:
    moved = np.array(shift, np.float32)[:, None] * 12
    clouds = lambda p: courtyard.sky(p, moved)
    return Body(Sphere(), (0, 0, 0), (12, 12, 12), clouds, emits=True)


def _walker(at, size, coat, trousers, sun):
    x, y = at

    def part(shape, height, half, colour):
        half = tuple(size * h for h in half)
        return _shaded(shape, (x, y, size * height), half, colour, sun)

    yield part(Frustum(1.25), 0.42, (0.16, 0.16, 0.42), trousers)
    yield part(Frustum(0.75), 1.14, (0.25, 0.25, 0.32), coat)
    yield part(Sphere(), 1.60, (0.13, 0.13, 0.16), SKIN)
    yield part(Sphere(), 1.67, (0.14, 0.14, 0.12), HAIR)


def _shaded(shape, centre, half, colour, sun) -> Body:
    """A body that shines as if sun and sky lit it."""
    size = np.array(half, np.float32)[:, None]
    colour = np.array(colour, np.float32)[:, None]

    def paint(p):
        normal = unit(shape.normal(p / size).astype(np.float32) / size)
        lit = np.maximum((sun.direction[:, None] * normal).sum(0), 0)
        return colour * (SKY * (1.2 + 0.4 * normal[2]) + sun.colour[:, None] * lit)

    return Body(shape, centre, half, paint, emits=True)


def compared(truth: Path, masks: Path) -> dict[str, float]:
    """Shares of what moves that masks leave out, of what is still that they leave out, and of what
    they leave out that moves. truth: pictures that are white where something moves; masks: black
    where a photograph does not count, of the same names, and perhaps smaller."""
    both = moving = ignored = pixels = 0
    for path in sorted(truth.glob("*.png")):
        with Image.open(masks / path.name) as mask, Image.open(path) as picture:
            out = np.asarray(mask.convert("L")) < 128
            moves = np.asarray(picture.convert("L").resize(mask.size, Image.Resampling.BOX)) > 127
        both, moving = both + int((out & moves).sum()), moving + int(moves.sum())
        ignored, pixels = ignored + int(out.sum()), pixels + out.size
    still = (ignored - both) / max(pixels - moving, 1)
    return {"found": both / max(moving, 1), "still": still, "right": both / max(ignored, 1)}


if __name__ == "__main__":
    for name, share in compared(*map(Path, sys.argv[1:])).items():
        print(f"{name} {100 * share:.1f} %")
