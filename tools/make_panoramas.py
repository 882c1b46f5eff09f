"""Ray-trace panoramas of the courtyard, equirectangular, with transforms.json as nerfstudio has it:
a scene of all directions whose truth is known.

    python -m tools.make_panoramas --out /tmp/panoramas
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.io.scenes.transforms import OPENGL_TO_OPENCV
from tools import courtyard
from tools.make_scene import scene_parser
from tools.raytrace import World

XMP = b'<x GPano:ProjectionType="equirectangular"/>'


def poses(count: int, ring: int, rng: np.random.Generator) -> list[np.ndarray]:
    """(4, 4) camera to world, OpenCV axes: the first `count` of a ring of places around the
    fountain, at two distances and three heights, turned at random about the vertical and by a few
    degrees otherwise."""
    out = []
    for i in range(count):
        angle, r = 2 * np.pi * (i + 0.3) / ring, (2.3, 3.3)[i % 2] + 0.3 * rng.random()
        yaw, tilts = 2 * np.pi * rng.random(), 0.05 * rng.normal(size=2)
        forward = np.array([np.cos(yaw), np.sin(yaw), tilts[0]])
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, [tilts[1], 0, 1])
        right /= np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
        pose[:3, 3] = r * np.cos(angle), r * np.sin(angle), 1.3 + 0.7 * (i % 3) / 2
        out.append(pose)
    return out


def panorama(world: World, pose: np.ndarray, width: int, samples: int = 2) -> np.ndarray:
    """(width // 2, width, 3) uint8 of what is seen from a pose, camera to world."""
    height, total = width // 2, 0
    for offset in np.ndindex(samples, samples):
        y, x = np.mgrid[:height, :width].reshape(2, -1) + (np.array([offset]).T + 0.5) / samples
        along, up = 2 * np.pi * (x / width - 0.5), np.pi * (0.5 - y / height)
        local = np.stack([np.sin(along) * np.cos(up), -np.sin(up), np.cos(along) * np.cos(up)])
        d = (pose[:3, :3] @ local).astype(np.float32)
        o = np.broadcast_to(pose[:3, 3:].astype(np.float32), d.shape)
        total = total + world.look(o, d)[0]
    image = np.rint(total.T / samples**2 * 255).astype(np.uint8)
    return image.reshape(height, width, 3)


def make_panoramas(
    out: Path,
    count: int,
    width: int,
    samples: int = 2,
    seed: int = 0,
    texel: float = 0.05,
    ring: int | None = None,
) -> None:
    """Writes `out`/images and `out`/transforms.json. samples: of a pixel along each axis. texel:
    metres, of the light that is baked. ring: places around the fountain, by default `count`."""
    rng = np.random.default_rng(seed)
    world = World(courtyard.bodies(rng), courtyard.sun(), texel, rng)
    (out / "images").mkdir(parents=True, exist_ok=True)
    frames = []
    for i, pose in enumerate(poses(count, ring or count, rng)):
        name = f"images/pano_{i:03d}.jpg"
        image = Image.fromarray(panorama(world, pose, width, samples))
        image.save(out / name, quality=95, subsampling=0, xmp=XMP)
        c2w = pose.copy()
        c2w[:3, :3] = c2w[:3, :3] @ OPENGL_TO_OPENCV
        frames.append({"file_path": name, "transform_matrix": c2w.tolist()})
    about = dict(camera_model="EQUIRECTANGULAR", w=width, h=width // 2)
    (out / "transforms.json").write_text(json.dumps(about | {"frames": frames}, indent=1))


def main():
    defaults = dict(out=Path("panoramas"), views=24, width=1024, height=0, supersample=2)
    about = "Ray-trace panoramas of the courtyard; --height is half of --width."
    args = scene_parser("make_panoramas", about, "poses and small placements", **defaults)
    options = args.parse_args()
    how = options.views, options.width, options.supersample, options.seed
    make_panoramas(options.out, *how)


if __name__ == "__main__":
    main()
