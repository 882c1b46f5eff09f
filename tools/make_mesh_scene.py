"""Ray-trace a bumpy, painted object on black and write it with its silhouettes: what
`hardsplat fit-mesh` is tried on.

    python -m tools.make_mesh_scene --out out/pebble

The object is star-shaped: its surface lies r(direction) from the origin, a smooth sum of bumps.
Light is baked into its colour.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.model.camera import Camera
from tools.make_scene import _look_at, rays, scene_parser, write_points, write_transforms

DISTANCE, FIELD_OF_VIEW = 4.2, 40.0  # of the cameras, object radii about 1; degrees
FARTHEST = 1.45  # no point of the object is farther out
MARCH, BISECT = 48, 12
POINTS, NOISE = 2000, 0.005  # near the surface, and how near


class Pebble:
    """bumps: directions (B, 3), heights (B,), sharpnesses (B,)."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        directions = rng.normal(size=(22, 3))
        self.directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        self.heights = rng.uniform(-0.2, 0.3, 22)
        self.sharpnesses = rng.uniform(4, 18, 22)
        self.paint = rng.uniform(0, 2 * np.pi, (3, 3))
        self.light = np.array([0.4, -0.5, 0.77])

    def radius(self, d: np.ndarray) -> np.ndarray:
        """(N,) of unit directions (N, 3)."""
        bumps = np.exp(self.sharpnesses * (d @ self.directions.T - 1))
        return np.clip(0.85 + bumps @ self.heights, 0.35, FARTHEST)

    def height(self, p: np.ndarray) -> np.ndarray:
        """(N,) above 0 outside of the object, of points (N, 3)."""
        r = np.linalg.norm(p, axis=1)
        return r - self.radius(p / np.maximum(r, 1e-9)[:, None])

    def colour(self, p: np.ndarray) -> np.ndarray:
        """(N, 3) in 0..1 of points (N, 3) of the surface: waves of paint, a checked belt, light
        from one side."""
        d = p / np.linalg.norm(p, axis=1, keepdims=True)
        waves = 0.5 + 0.5 * np.sin(
            5.0 * d @ np.array([[1.0, 0.3, -0.4], [-0.2, 1.1, 0.5], [0.6, -0.5, 1.0]])
            + self.paint[0]
        )
        angle = np.arctan2(d[:, 1], d[:, 0])
        checks = 0.5 + 0.5 * np.tanh(6 * np.sin(6 * angle) * np.sin(9 * d[:, 2]))
        belt = np.exp(-((d[:, 2] / 0.35) ** 4))[:, None]
        paint = (1 - 0.6 * belt) * waves + 0.6 * belt * checks[:, None]
        step = 1e-4
        slope = np.stack(
            [(self.height(p + step * e) - self.height(p - step * e)) for e in np.eye(3)], axis=1
        )
        normal = slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-12)
        return np.clip((0.15 + 0.8 * paint) * (0.65 + 0.35 * (normal @ self.light))[:, None], 0, 1)

    def distance(self, o: np.ndarray, d: np.ndarray) -> np.ndarray:
        """(N,) along rays (3, N) with unit directions, 0 where nothing is hit: marched, then
        bisected."""
        o, d = o.T.astype(np.float64), d.T.astype(np.float64)
        middle = -(o * d).sum(1)
        half = np.sqrt(np.maximum(FARTHEST**2 - ((o + middle[:, None] * d) ** 2).sum(1), 0))
        hit = np.zeros(len(o), bool)
        before, after = np.zeros(len(o)), np.zeros(len(o))
        alive = np.flatnonzero(half > 0)
        last = middle - half
        for k in range(1, MARCH + 1):
            t = middle + half * (2 * k / MARCH - 1)
            inside = self.height(o[alive] + t[alive, None] * d[alive]) < 0
            found = alive[inside]
            hit[found], before[found], after[found] = True, last[found], t[found]
            alive = alive[~inside]
            last = t
        at = np.flatnonzero(hit)
        for _ in range(BISECT):
            t = 0.5 * (before[at] + after[at])
            inside = self.height(o[at] + t[:, None] * d[at]) < 0
            after[at[inside]], before[at[~inside]] = t[inside], t[~inside]
        return after

    def look(self, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Colour (N, 3), black where nothing is hit, and hits (N,) bool, of rays (3, N)."""
        after = self.distance(o, d)
        hit = after > 0
        at = np.flatnonzero(hit)
        o, d = o.T.astype(np.float64), d.T.astype(np.float64)
        colour = np.zeros((len(o), 3))
        colour[at] = self.colour(o[at] + after[at, None] * d[at])
        return colour, hit


def cameras(count: int, width: int, height: int) -> list[Camera]:
    """On a spiral around the object, from above to below."""
    focal = min(width, height) / (2 * np.tan(np.radians(FIELD_OF_VIEW) / 2))
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    out = []
    for i in range(count):
        z = 0.92 * (1 - (2 * i + 1) / count)
        angle = np.pi * (3 - np.sqrt(5)) * i
        eye = DISTANCE * np.array(
            [np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z]
        )
        out.append(Camera(_look_at(eye, np.zeros(3)), K, width, height))
    return out


def render(pebble: Pebble, camera: Camera, supersample: int) -> tuple[np.ndarray, np.ndarray]:
    """Colour over black (H, W, 3) and coverage (H, W), both in 0..1."""
    y, x = np.mgrid[0 : camera.height, 0 : camera.width].reshape(2, -1) + 0.5
    colour = coverage = 0.0
    for dy in range(supersample):
        for dx in range(supersample):
            c, h = pebble.look(
                *rays(
                    camera, x + (dx + 0.5) / supersample - 0.5, y + (dy + 0.5) / supersample - 0.5
                )
            )
            colour, coverage = colour + c / supersample**2, coverage + h / supersample**2
    shape = camera.height, camera.width
    return colour.reshape(*shape, 3), coverage.reshape(shape)


def scatter(pebble: Pebble, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3) points near the surface, as structure from motion leaves them, and their colours
    (N, 3) uint8."""
    rng = np.random.default_rng(seed)
    d = rng.normal(size=(POINTS, 3))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    points = pebble.radius(d)[:, None] * d
    colours = np.rint(255 * pebble.colour(points)).astype(np.uint8)
    return points + rng.normal(0, NOISE, points.shape), colours


def make_mesh_scene(
    out,
    views=32,
    width=128,
    height=128,
    seed=0,
    supersample=2,
    silhouettes="masks",
    report=lambda line: None,
) -> None:
    """Write `out`/images, `out`/transforms.json and, for silhouettes `masks`, `out`/masks; for
    `alpha`, photographs are transparent around the object."""
    out, pebble = Path(out), Pebble(seed)
    for name in ("images", "masks")[: 2 if silhouettes == "masks" else 1]:
        (out / name).mkdir(parents=True, exist_ok=True)
    posed = cameras(views, width, height)
    names = [f"view_{i:04d}.png" for i in range(views)]
    for i, (name, camera) in enumerate(zip(names, posed)):
        colour, coverage = render(pebble, camera, supersample)
        if silhouettes == "masks":
            Image.fromarray(np.rint(255 * colour).astype(np.uint8)).save(out / "images" / name)
            Image.fromarray(np.where(coverage >= 0.5, 255, 0).astype(np.uint8)).save(
                out / "masks" / name
            )
        else:
            straight = np.concatenate(
                [colour / np.maximum(coverage, 1e-6)[..., None], coverage[..., None]], axis=2
            )
            Image.fromarray(np.rint(255 * straight).astype(np.uint8)).save(out / "images" / name)
        report(f"view {i + 1} of {views}")
    write_points(out / "points.ply", *scatter(pebble, seed))
    write_transforms(out, names, posed, ply_file_path="points.ply")


def main():
    defaults = dict(out=Path("out/pebble"), views=32, width=128, height=128, supersample=2)
    parser = scene_parser(
        "make_mesh_scene",
        "Ray-trace a bumpy, painted object and write it with its silhouettes.",
        "bumps and paint",
        **defaults,
    )
    parser.add_argument(
        "--silhouettes",
        choices=("masks", "alpha"),
        default="masks",
        help="as masks/, or as transparency of the photographs",
    )
    make_mesh_scene(**vars(parser.parse_args()), report=lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
