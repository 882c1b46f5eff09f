"""The courtyard under an open sky, as a COLMAP scene: two walls are gone, and the sky is infinitely
far.

    python -m tools.outdoors OUT [--views N ...]
"""

from __future__ import annotations

import argparse
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat import Camera
from tools import courtyard, make_scene
from tools.raytrace import World

FAR = 1000.0  # metres to the sky
RAISED = 0.9  # metres above the middle that photographs aim, so that they show the sky


def bodies(rng):
    """Those of the courtyard, without the walls of two sides."""
    for body in courtyard.bodies(rng):
        x, y = body.centre[:2, 0]
        if body.emits:
            paint = lambda p, own=body.paint: own(12 * p / FAR)
            yield replace(body, centre=(0, 0, 0), half=(FAR,) * 3, paint=paint)
        elif abs(x) < 5.2 or abs(y) > 4:
            yield body


def raised(camera: Camera) -> Camera:
    """A camera at the same place, aimed higher."""
    forward = camera.w2c[2, :3]
    ahead = camera.position + 3.6 * forward + [0, 0, RAISED]
    return replace(camera, w2c=make_scene._look_at(camera.position, ahead))


def make(out: Path, views: int, width: int, height: int, points: int, supersample: int, seed: int):
    rng = np.random.default_rng(seed)
    texel = max(0.04, 6 / width)
    world = World(list(bodies(rng)), courtyard.sun(), texel, rng)
    cameras = [raised(c) for c in make_scene.cameras(views, width, height)]
    seen = [make_scene.render(world, camera, supersample) for camera in cameras]
    xyz, rgb = make_scene.scatter(seen, 2 * points, rng)
    near = np.linalg.norm(xyz, axis=1) < 50  # matchers find nothing that lasts in the sky
    xyz, rgb = xyz[near][:points], rgb[near][:points]
    make_scene._write_images(out / "images", [view.image for view in seen])
    make_scene._write_model(out / "sparse" / "0", seen, xyz, rgb)
    training = {i + 1: v for i, v in enumerate(seen) if i % make_scene.HOLD_OUT}
    _write_points(
        out / "sparse" / "0" / "points3D.bin",
        xyz,
        rgb,
        {i: make_scene.visible(view, xyz)[0] for i, view in training.items()},
    )
    print(f"{out}: {views} views of {width}x{height}, {len(xyz)} points")


def _write_points(path: Path, xyz, rgb, seen: dict[int, np.ndarray]) -> None:
    """points3D.bin with tracks. seen: (N,) bool by number of the image."""
    data = [struct.pack("<Q", len(xyz))]
    for k, (point, color) in enumerate(zip(xyz, rgb)):
        track = [i for i, shown in seen.items() if shown[k]]
        data.append(struct.pack("<Q3d3BdQ", k + 1, *point, *color, 0.0, len(track)))
        data += [struct.pack("<2I", i, 0) for i in track]
    path.write_bytes(b"".join(data))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.outdoors", description=__doc__)
    parser.add_argument("out", type=Path)
    sizes = dict(views=40, width=160, height=120, points=3500, supersample=2, seed=0)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    make(**vars(parser.parse_args(words)))


if __name__ == "__main__":
    main(sys.argv[1:])
