"""The courtyard: what stands where and how it is painted.

Textures keep their features above about 15 cm and their edges soft, so that photographs of 160x120,
whose pixels cover 3 to 7 cm, show what larger ones do.
"""

from __future__ import annotations

import numpy as np

from tools.raytrace import Body, Sun, unit
from tools.shapes import Box, Frustum, Sheet, Sphere

HALF = 5.5  # metres from the centre to each wall
WALL = 3.2  # metres, height of the walls

STONE, PALE = (0.62, 0.55, 0.46), (0.80, 0.74, 0.64)
TERRACOTTA, ROOF = (0.66, 0.27, 0.13), (0.70, 0.30, 0.16)
OAK, WALNUT = (0.56, 0.35, 0.17), (0.33, 0.19, 0.09)
LEAF, CYPRESS = (0.19, 0.36, 0.09), (0.10, 0.24, 0.10)
TEAL = (0.05, 0.30, 0.36)
CREAM = (0.86, 0.81, 0.68)
RED = (0.66, 0.10, 0.08)
GOLD = (0.85, 0.55, 0.12)


def sun() -> Sun:
    return Sun(
        unit(np.array([0.52, -0.46, 0.80])).astype(np.float32),
        np.array([1.80, 1.50, 1.10], np.float32),
        0.05,
    )


def bodies(rng: np.random.Generator) -> list[Body]:
    return [*_enclosure(), *_fountain(), *_garden(rng), *_market(rng), *_bench()]


# --- paint: (3, N) metres in the body's frame -> (3, N) albedo


def _column(colour):
    return np.array(colour, np.float32)[:, None]


def _mix(a, b, weight):
    return a + (b - a) * weight


def _step(x, edge=0.02):
    """0 below zero, 1 above, `edge` metres of transition to either side."""
    x = np.clip(x / (2 * edge) + 0.5, 0, 1)
    return x * x * (3 - 2 * x)


def _mottle(p, size):
    """Smooth blotches of about `size` metres, in -1..1: waves bent by waves, cheaper than lattice
    noise."""
    x, y, z = (2 * np.pi / (2.4 * size)) * p
    a = np.sin(x + 1.7 * np.sin(0.6 * y + 0.9 * z)) + np.sin(
        1.3 * y + 1.5 * np.sin(0.8 * z - 0.7 * x) + 2
    )
    return (a + np.sin(1.1 * z + 1.6 * np.sin(0.9 * x + 0.5 * y) + 4)) / 3


def _cell_tint(i, j):
    """A number in -1..1 that differs from cell to cell, the same in every view."""
    return np.sin(12.9898 * i + 78.233 * j + 0.5 * np.sin(4.1 * i - 2.3 * j))


def plain(colour, variation=0.12, size=0.45):
    return lambda p: _column(colour) * (1 + variation * _mottle(p, size))


def stripes(a, b, width, axis=0):
    def paint(p):
        wave = np.abs((p[axis] / (2 * width)) % 1 - 0.5) * 2 * width
        return _mix(_column(a), _column(b), _step(wave - width / 2))

    return paint


def planks(colour, width, axis=0, along=2):
    def paint(p):
        i, f = np.divmod(p[axis] / width, 1)
        grain = 0.10 * np.sin(9 * p[along] + 5 * i + 2 * np.sin(4 * f)) + 0.16 * _cell_tint(
            i, 0 * i
        )
        gap = _step(np.minimum(f, 1 - f) * width - 0.018, 0.015)
        return _column(colour) * (1 + grain) * (0.45 + 0.55 * gap)

    return paint


def _bricks(u, v, p, colour, joint, width, height, tint=0.14):
    j, fv = np.divmod(v / height, 1)
    i, fu = np.divmod(u / width + 0.5 * (j % 2), 1)
    edge = np.minimum(np.minimum(fu, 1 - fu) * width, np.minimum(fv, 1 - fv) * height)
    stone = _column(colour) * (1 + tint * _cell_tint(i, j) + 0.08 * _mottle(p, 0.4))
    return _mix(_column(joint), stone, _step(edge - 0.03, 0.025))


def ring_stones(colour, radius, width, height):
    return lambda p: _bricks(
        np.arctan2(p[1], p[0]) * radius, p[2], p, colour, (0.42, 0.37, 0.31), width, height
    )


def _floor(p):
    """Checkered tiles, and around the fountain a ring of darker and lighter wedges."""
    tile = 0.78
    (i, fu) = np.divmod((p[0] + p[1]) / (2**0.5 * tile), 1)
    (j, fv) = np.divmod((p[0] - p[1]) / (2**0.5 * tile), 1)
    edge = np.minimum(np.minimum(fu, 1 - fu), np.minimum(fv, 1 - fv)) * tile
    colour = np.where((i + j) % 2 > 0, _column((0.66, 0.52, 0.38)), _column((0.47, 0.30, 0.20)))
    colour = colour * (1 + 0.10 * _cell_tint(i, j) + 0.08 * _mottle(p, 0.6))
    colour = _mix(_column((0.40, 0.33, 0.27)), colour, _step(edge - 0.02, 0.025))
    r, wedge = np.hypot(p[0], p[1]), np.arctan2(p[1], p[0]) * 12 / np.pi
    turn = np.abs(wedge % 2 - 1) - 0.5
    ring = _mix(_column((0.24, 0.33, 0.38)), _column((0.76, 0.70, 0.60)), _step(turn * r / 4, 0.02))
    return _mix(_mix(ring, _column(PALE), _step(r - 1.95)), colour, _step(r - 2.12))


def _wall(openings):
    """Plaster over a base of stone blocks, a painted band, and arched openings (x, sill, half
    width, spring, colour)."""

    def paint(p):
        height = p[1] + WALL / 2
        plaster = _column((0.82, 0.62, 0.42)) * (1 + 0.09 * _mottle(p, 0.9))
        colour = _mix(
            _bricks(p[0], height, p, STONE, (0.40, 0.35, 0.29), 0.92, 0.46),
            plaster,
            _step(height - 0.92),
        )
        off_band = np.abs(height - 2.68)
        diamond = np.abs((p[0] / 0.5) % 1 - 0.5) * 0.28 - off_band
        frieze = _mix(_column((0.10, 0.28, 0.38)), _column(CREAM), _step(diamond))
        colour = _mix(frieze, colour, _step(off_band - 0.16))
        for x, sill, half, spring, tone in openings:
            depth = half - np.hypot(p[0] - x, np.maximum(height - spring, 0))
            inside = np.minimum(depth, height - sill)
            colour = _mix(colour, _column(CREAM), _step(inside + 0.14))
            panel = _column(tone) * (
                0.8 + 0.35 * _step(np.abs((p[0] - x) % (half / 1.5) - half / 3) - 0.05, 0.04)
            )
            colour = _mix(
                colour, panel * (1 - 0.25 * _step(0.05 - np.abs(height - spring))), _step(inside)
            )
        return colour

    return paint


def _basin(p):
    """Stone outside, water within a pale rim on the top face."""
    r = np.hypot(p[0], p[1])
    stone = ring_stones(PALE, 1.25, 0.55, 0.28)(p)
    ripple = 0.5 + 0.5 * np.sin(9 * r + 0.8 * _mottle(p, 0.5))
    water = _mix(_column((0.06, 0.30, 0.36)), _column((0.16, 0.48, 0.52)), ripple)
    top = _mix(water, _column((0.86, 0.81, 0.72)), _step(r - 1.02))
    return np.where(p[2] > 0.26, top, stone)


def sky(p, shift=0.0):
    """Emitted light: haze at the horizon, blue above, a few broad clouds. shift: of the clouds,
    metres."""
    up = np.clip(unit(p)[2], 0, 1)
    blue = _mix(_column((0.70, 0.72, 0.72)), _column((0.10, 0.28, 0.66)), np.sqrt(up))
    cloud = _step(_mottle((p + shift) * _column((1, 1, 1.8)), 4.5) - 0.18, 0.35)
    return _mix(blue, _column((1.75, 1.68, 1.58)), 0.7 * cloud)


def hedge(colour):
    return lambda p: (
        _column(colour) * (1 + 0.38 * _mottle(p, 0.16) + 0.15 * _mottle(p[[1, 2, 0]], 0.3))
    )


def blossoms(p):
    spots = _step(_mottle(p, 0.11) - 0.05, 0.18)
    return _mix(_column((0.16, 0.32, 0.10)), _column((0.72, 0.12, 0.36)), spots)


# --- parts


def _turn(yaw=0.0, tilt=0.0):
    """Tilt about x, then yaw about z, in degrees."""
    a, b = np.radians([yaw, tilt])
    yawed = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return yawed @ np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])


def _on_wall(yaw, along, height, inward=0.0):
    """World position of a point on the wall that the direction `yaw` faces (0: +y), seen from
    inside, `along` to the right."""
    return _turn(yaw) @ np.array([along, HALF - inward, height])


def _enclosure():
    door, window = (0.05, 0.24, 0.34), (0.10, 0.14, 0.16)
    openings = {
        0: [(-3.4, 1.25, 0.5, 1.9, window), (3.6, 1.25, 0.5, 1.9, window)],
        90: [
            (0.0, -0.2, 0.8, 1.75, door),
            (-3.0, 1.2, 0.55, 1.9, window),
            (3.0, 1.2, 0.55, 1.9, window),
        ],
        180: [
            (-2.8, -0.2, 0.75, 1.6, (0.45, 0.12, 0.08)),
            (0.6, 1.2, 0.5, 1.9, window),
            (3.0, 1.2, 0.5, 1.9, window),
        ],
        270: [(x, -0.2, 0.75, 1.7, (0.20, 0.23, 0.14)) for x in (-2.6, 0.0, 2.6)],
    }
    yield Body(Sphere(), (0, 0, 0), (12, 12, 12), sky, emits=True)
    yield Body(Sheet(), (0, 0, 0), (HALF, HALF, 0), _floor)
    tiles = stripes(ROOF, (0.52, 0.19, 0.10), 0.28)
    for yaw, arches in openings.items():
        # A sheet stood upright: x to the right, y up, lit face to the inside.
        yield Body(
            Sheet(), _on_wall(yaw, 0, WALL / 2), (HALF, WALL / 2, 0), _wall(arches), _turn(yaw, 90)
        )
        yield Body(Box(), _on_wall(yaw, 0, WALL, 0.12), (HALF, 0.48, 0.07), tiles, _turn(yaw, 20))
        corner = _on_wall(yaw, HALF - 0.3, WALL / 2 - 0.1, 0.3)
        yield Body(Box(), corner, (0.32, 0.32, WALL / 2 - 0.1), planks(PALE, 0.46, 2, 0))


def _fountain():
    yield Body(Frustum(1.08), (0, 0, 0.28), (1.2, 1.2, 0.28), _basin)
    yield Body(Frustum(0.72), (0, 0, 0.92), (0.24, 0.24, 0.38), ring_stones(PALE, 0.24, 0.4, 0.25))
    yield Body(
        Frustum(2.4),
        (0, 0, 1.36),
        (0.26, 0.26, 0.11),
        stripes(PALE, (0.60, 0.52, 0.42), 0.12, 2),
        gloss=0.1,
    )
    yield Body(Frustum(0.7), (0, 0, 1.62), (0.13, 0.13, 0.17), plain(PALE))
    yield Body(Sphere(), (0, 0, 1.98), (0.25, 0.25, 0.25), plain(GOLD), gloss=0.25)


def _garden(rng):
    for yaw, glaze in zip((45, 135, 225, 315), (TERRACOTTA, TEAL, TERRACOTTA, TEAL)):
        x, y, _ = _turn(yaw + rng.uniform(-3, 3)) @ np.array([0, 5.15, 0])
        yield Body(
            Frustum(1.35),
            (x, y, 0.26),
            (0.26, 0.26, 0.26),
            stripes(glaze, CREAM, 0.15, 2),
            gloss=0.12,
        )
        yield Body(Sphere(), (x, y, 0.9), (0.46, 0.46, 0.46), hedge(LEAF))
        x, y, _ = _turn(yaw + rng.uniform(-3, 3)) @ np.array([0, 1.75, 0])
        yield Body(Frustum(1.3), (x, y, 0.12), (0.2, 0.2, 0.12), plain(glaze), gloss=0.12)
        yield Body(Sphere(), (x, y, 0.27), (0.25, 0.25, 0.2), blossoms)
    for yaw in (0, 90, 180, 270):
        x, y, _ = _on_wall(yaw, HALF - 1.25, 0, 0.75)
        yield Body(Frustum(0.85), (x, y, 0.2), (0.38, 0.38, 0.2), plain(TERRACOTTA))
        yield Body(Frustum(0.06), (x, y, 1.75), (0.48, 0.48, 1.36), hedge(CYPRESS))
    for along, height, size in (
        (-1.6, 2.9, 0.5),
        (-0.9, 3.05, 0.55),
        (-2.1, 2.4, 0.38),
        (-0.3, 2.95, 0.36),
    ):
        yield Body(Sphere(), _on_wall(90, along, height, 0.15), (0.4, size, size * 0.8), blossoms)


def _market(rng):
    """A striped awning over crates of fruit, on the +y wall."""
    for along in (-1.7, 1.7):
        yield Body(Frustum(), _on_wall(0, along, 1.06, 1.12), (0.07, 0.07, 1.06), plain(OAK))
    yield Body(
        Box(),
        _on_wall(0, 0, 2.32, 0.64),
        (1.95, 0.68, 0.04),
        stripes(RED, CREAM, 0.39),
        _turn(0, 17),
    )
    yield Body(Box(), _on_wall(0, 0, 0.4, 0.75), (1.5, 0.4, 0.4), planks(OAK, 0.3))
    fruit = (((0.80, 0.36, 0.05), 0.16), ((0.62, 0.10, 0.07), 0.15), ((0.42, 0.50, 0.08), 0.17))
    for along, (colour, radius) in zip((-1.0, 0.0, 1.0), fruit):
        yield Body(
            Box(), _on_wall(0, along, 0.88, 0.75), (0.44, 0.36, 0.09), planks(WALNUT, 0.09, 2, 0)
        )
        for k, inward in ((-1, 0.58), (0, 0.58), (1, 0.58), (-0.5, 0.9), (0.5, 0.9)):
            spot = _on_wall(
                0, along + k * 0.28 + rng.uniform(-0.02, 0.02), 0.97 + 0.7 * radius, inward
            )
            yield Body(Sphere(), spot, (radius,) * 3, plain(colour, 0.1, 0.2), gloss=0.1)
    crate = planks(OAK, 0.2, 2, 0)
    for along, inward, height, size in ((2.55, 0.8, 0.36, 0.36), (2.5, 0.75, 0.99, 0.27)):
        yield Body(
            Box(),
            _on_wall(0, along, height, inward),
            (size,) * 3,
            crate,
            _turn(rng.uniform(10, 40)),
        )


def _bench():
    """A bench and three painted drums along the -y wall."""
    for along in (-0.65, 1.85):
        yield Body(
            Box(), _on_wall(180, along, 0.22, 0.6), (0.09, 0.3, 0.22), plain(STONE), _turn(180)
        )
    yield Body(
        Box(), _on_wall(180, 0.6, 0.48, 0.6), (1.5, 0.36, 0.05), planks(OAK, 0.24, 1, 0), _turn(180)
    )
    yield Body(
        Box(),
        _on_wall(180, 0.6, 0.85, 0.25),
        (1.5, 0.05, 0.24),
        planks(OAK, 0.24, 2, 0),
        _turn(180, 8),
    )
    drums = ((2.75, 0.75, 0.42, TEAL), (3.5, 0.6, 0.3, RED), (-1.75, 0.75, 0.32, GOLD))
    for along, inward, size, colour in drums:
        drum = stripes(colour, CREAM, 0.24, 2)
        yield Body(
            Frustum(),
            _on_wall(180, along, size, inward),
            (size * 0.85, size * 0.85, size),
            drum,
            gloss=0.1,
        )
