"""Ray-trace the courtyard and write it as a COLMAP scene, or with transforms.json: the small scene
that ships with the repository.

    python -m tools.make_scene --out scenes/courtyard

The same arguments give the same bytes, on the same versions of numpy, scipy and Pillow.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from plyfile import PlyData, PlyElement
from scipy.spatial.transform import Rotation

from hardsplat.io.scenes.colmap import ColmapCamera, ColmapImage, ColmapPoints, write_model
from hardsplat.io.scenes.transforms import OPENGL_TO_OPENCV
from hardsplat.model.camera import Camera, Distortion
from tools import courtyard
from tools.raytrace import World

FIELD_OF_VIEW = 68.0  # degrees, horizontal
# of a fisheye lens, with little more than the equidistant image
FISHEYE_FIELD, FISHEYE = (150.0, Distortion(True, (0.02, -0.005, 0.0, 0.0)))
HOLD_OUT = 8  # every 8th view by name is for testing, as in app/hardsplat/train/measure/command.py
NOISE = 0.003  # of the courtyard's half width: about what structure from motion leaves


@dataclass(frozen=True)
class View:
    camera: Camera
    image: np.ndarray  # (height, width, 3) uint8
    distance: np.ndarray  # (height, width) along the ray of the pixel's centre, metres


def cameras(count: int, width: int, height: int, fisheye: bool = False) -> list[Camera]:
    """Two turns around the fountain, looking in. fisheye: through such a lens.

    Height, distance and aim swing with a period of HOLD_OUT views and pass their middle at each
    held-out view, so that no held-out view is an extreme one; the second turn falls between the
    views of the first (an odd number of steps).
    """
    focal = (
        width / np.radians(FISHEYE_FIELD)
        if fisheye
        else width / (2 * np.tan(np.radians(FIELD_OF_VIEW) / 2))
    )
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    out = []
    for i in range(count):
        angle = 2 * np.pi * (2 * i / (count | 1) + 0.04)
        swing, fast = np.sin(2 * np.pi * i / HOLD_OUT), np.sin(4 * np.pi * i / HOLD_OUT)
        r = 3.6 + 0.25 * fast
        eye = np.array([r * np.cos(angle), r * np.sin(angle), 1.75 + 0.55 * swing])
        target = np.array([0.25 * np.sin(3 * angle), 0.25 * np.cos(2 * angle), 1.2 + 0.1 * fast])
        out.append(Camera(_look_at(eye, target), K, width, height, FISHEYE if fisheye else None))
    return out


def _look_at(eye, target):
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    w2c = np.eye(4)
    w2c[:3, :3] = np.stack([right, np.cross(forward, right), forward])
    w2c[:3, 3] = -w2c[:3, :3] @ eye
    return w2c


def rays(camera: Camera, x, y):
    """World rays through pixel positions x, y (N,): origins and unit directions, both (3, N)
    float32."""
    d = np.linalg.inv(camera.K) @ np.stack([x, y, np.ones_like(x)])
    if camera.distortion:
        d = _through_fisheye(camera.distortion, d[:2])
    d = camera.w2c[:3, :3].T @ (d / np.linalg.norm(d, axis=0))
    o = np.broadcast_to(camera.position[:, None], d.shape)
    return o.astype(np.float32), d.astype(np.float32)


def _through_fisheye(lens: Distortion, at: np.ndarray) -> np.ndarray:
    """Directions (3, N) of rays that a fisheye puts at (2, N), in focal lengths from its centre:
    the angle from the axis by Newton's method."""
    far = np.maximum(np.linalg.norm(at, axis=0), 1e-12)
    odd = np.array([1.0, *lens.coefficients])
    angle = far.copy()
    for _ in range(20):
        powers = angle ** (2 * np.arange(5))[:, None]
        angle -= (angle * (odd @ powers) - far) / ((odd * (2 * np.arange(5) + 1)) @ powers)
    return np.concatenate([np.sin(angle) * at / far, np.cos(angle)[None]])


def render(world: World, camera: Camera, supersample: int) -> View:
    w, h = camera.width, camera.height
    y, x = np.mgrid[0:h, 0:w].reshape(2, -1) + 0.5
    total = 0
    for dy in range(supersample):
        for dx in range(supersample):
            offset = (np.array([dx, dy]) + 0.5) / supersample - 0.5
            # Samples are averaged as display values, the space in which splats are blended too.
            total = total + world.look(*rays(camera, x + offset[0], y + offset[1]))[0]
    _, distance = world.look(*rays(camera, x, y))
    mean = np.rint(total.T / supersample**2 * 255).astype(np.uint8)
    return View(camera, mean.reshape(h, w, 3), distance.reshape(h, w))


def visible(view: View, points: np.ndarray):
    """Which of the (N, 3) points `view` sees, and the (N,) row and column of the pixel each falls
    on."""
    camera = view.camera
    seen = points @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]
    if camera.distortion:
        depth = np.maximum(seen[:, 2:], 1e-6)
        seen = np.concatenate([camera.distortion(seen[:, :2] / depth) * depth, seen[:, 2:]], axis=1)
    x, y, z = camera.K @ seen.T
    ahead = z > 0.05
    x, y = (np.floor(a / np.where(ahead, z, 1)).astype(int) for a in (x, y))
    inside = ahead & (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)
    y, x = np.where(inside, y, 0), np.where(inside, x, 0)
    range_ = np.linalg.norm(points - camera.position, axis=1)
    return inside & (np.abs(range_ - view.distance[y, x]) < 0.02 * range_), y, x


def scatter(views: list[View], count: int, rng: np.random.Generator):
    """Surface points seen by two training views or more: (N, 3) positions, (N, 3) uint8 mean
    colours, N <= count."""
    training = [view for i, view in enumerate(views) if i % HOLD_OUT]
    camera = views[0].camera
    drawn = rng.integers(0, (len(training), camera.height, camera.width), (2 * count, 3))
    points = np.empty((len(drawn), 3))
    for k, view in enumerate(training):
        mine = drawn[:, 0] == k
        y, x = drawn[mine, 1:].T
        o, d = rays(view.camera, x + 0.5, y + 0.5)
        points[mine] = (o + view.distance[y, x] * d).T
    colour, seen_by = np.zeros_like(points), np.zeros(len(points), int)
    for view in training:
        seen, y, x = visible(view, points)
        colour[seen] += view.image[y[seen], x[seen]]
        seen_by += seen
    keep = np.flatnonzero(seen_by >= 2)[:count]
    noisy = points[keep] + rng.normal(0, NOISE * courtyard.HALF, (len(keep), 3))
    return noisy, np.rint(colour[keep] / seen_by[keep, None]).astype(np.uint8)


def make_scene(
    out,
    views=40,
    width=160,
    height=120,
    seed=0,
    points=3500,
    supersample=3,
    layout="colmap",
    fisheye=False,
    report=lambda line: None,
) -> int:
    """Write `out`/images and `out`/sparse/0, or for layout `transforms` transforms.json and
    points.ply; returns the number of points written (at most `points`)."""
    out = Path(out)
    rng = np.random.default_rng(seed)
    # About the size of a pixel on the far side; finer light would only cost time, since the shadows
    # are soft.
    texel = max(0.04, 6 / width)
    report("baking light")
    world = World(courtyard.bodies(rng), courtyard.sun(), texel, rng)
    seen = []
    for i, camera in enumerate(cameras(views, width, height, fisheye)):
        seen.append(render(world, camera, supersample))
        report(f"view {i + 1} of {views}")
    xyz, rgb = scatter(seen, points, rng)
    _write_images(out / "images", [view.image for view in seen])
    if layout == "transforms":
        _write_transforms(out, seen, xyz, rgb)
    else:
        _write_model(out / "sparse" / "0", seen, xyz, rgb)
    return len(xyz)


def _name(i):
    return f"view_{i:04d}.jpg"


def _write_images(folder, images):
    folder.mkdir(parents=True, exist_ok=True)
    for i, image in enumerate(images):
        # 4:4:4 (subsampling=0): halved colour resolution would show at this size.
        Image.fromarray(image).save(folder / _name(i), quality=95, subsampling=0, optimize=True)


def _write_model(folder, views, xyz, rgb):
    first = views[0].camera
    K = first.K
    model, more = (
        ("OPENCV_FISHEYE", first.distortion.coefficients) if first.distortion else ("PINHOLE", ())
    )
    lens = ColmapCamera(
        1, model, first.width, first.height, np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2], *more])
    )
    images = {}
    for i, view in enumerate(views):
        w2c = view.camera.w2c
        # scipy puts w last, COLMAP first
        qvec = Rotation.from_matrix(w2c[:3, :3]).as_quat()[[3, 0, 1, 2]]
        images[i + 1] = ColmapImage(i + 1, _name(i), 1, qvec, w2c[:3, 3])
    write_model(folder, {1: lens}, images, ColmapPoints(xyz, rgb, np.zeros(len(xyz))))


def _write_transforms(out, views, xyz, rgb):
    write_transforms(
        out,
        [_name(i) for i in range(len(views))],
        [view.camera for view in views],
        ply_file_path="points.ply",
    )
    write_points(out / "points.ply", xyz, rgb)


def write_points(path, xyz, rgb):
    """(N, 3) positions and (N, 3) uint8 colours as PLY."""
    kinds = [(name, "<f8") for name in "xyz"] + [(name, "u1") for name in ("red", "green", "blue")]
    vertices = np.array([(*p, *c) for p, c in zip(xyz, rgb)], kinds)
    PlyData([PlyElement.describe(vertices, "vertex")], byte_order="<").write(path)


def write_transforms(out, names, cameras, **more):
    """transforms.json of photographs of one size in `out`/images. As nerfstudio has them: OpenGL
    cameras, camera to world. more: other keys of the file."""
    frames = []
    for name, camera in zip(names, cameras):
        c2w = np.linalg.inv(camera.w2c)
        c2w[:3, :3] = c2w[:3, :3] @ OPENGL_TO_OPENCV
        frames.append({"file_path": f"images/{name}", "transform_matrix": c2w.tolist()})
    K = cameras[0].K
    lens = dict(
        fl_x=K[0, 0], fl_y=K[1, 1], cx=K[0, 2], cy=K[1, 2], w=cameras[0].width, h=cameras[0].height
    )
    (out / "transforms.json").write_text(
        json.dumps({"camera_model": "OPENCV", **lens, **more, "frames": frames}, indent=1)
    )


def main():
    defaults = dict(out=Path("scenes/courtyard"), views=40, width=320, height=240, supersample=3)
    parser = scene_parser(
        "make_scene",
        "Ray-trace the courtyard scene and write it in COLMAP layout.",
        "small placements, light sampling and points",
        **defaults,
    )
    parser.add_argument(
        "--points", type=_at_least(1), default=3500, help="most points to write to points3D.bin"
    )
    parser.add_argument(
        "--layout",
        choices=("colmap", "transforms"),
        default="colmap",
        help="sparse/0/, or transforms.json and points.ply",
    )
    parser.add_argument(
        "--fisheye",
        action="store_true",
        help=f"through a fisheye of {FISHEYE_FIELD:g} degrees, for the layout colmap",
    )
    options = vars(parser.parse_args())
    if options["fisheye"] and options["layout"] != "colmap":
        parser.error("--fisheye: only in the layout colmap")
    count = make_scene(**options, report=lambda line: print(line, flush=True))
    print(
        f"{options['out']}: {options['views']} views of "
        f"{options['width']}x{options['height']}, {count} points"
    )


def scene_parser(tool, description, seeded, **defaults):
    """Flags of whatever ray-traces a scene. seeded: what --seed fixes. defaults: of --out, --views,
    --width, --height and --supersample."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tools.{tool}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="folder to write into")
    parser.add_argument("--views", type=_at_least(3), help="number of views")
    parser.add_argument("--width", type=_at_least(8), help="image width in pixels")
    parser.add_argument("--height", type=_at_least(8), help="image height in pixels")
    parser.add_argument(
        "--supersample", type=_at_least(1), help="samples per pixel along each axis"
    )
    parser.add_argument("--seed", type=_at_least(0), default=0, help=f"fixes {seeded}")
    parser.set_defaults(**defaults)
    return parser


def _at_least(low):
    def number(text):
        if int(text) < low:
            raise argparse.ArgumentTypeError(f"must be {low} or more, got {text}")
        return int(text)

    return number


if __name__ == "__main__":
    main()
