"""The courtyard under an open sky: two walls are gone, and the sky is infinitely far. Renders from
where no photograph was taken show what becomes of it, and how many floaters there are.

    python -m tools.outdoors make OUT [--views N ...]        a COLMAP scene, and OUT/novel
    python -m tools.outdoors measure SCENE RESULT...        PSNR of those views by kind
    python -m tools.outdoors picture SCENE RESULT... --out PICTURE.jpg      the truth and they
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat import Camera, Renderer
from hardsplat.io.sky import load_drawn
from hardsplat.results.model import find_model
from tools import courtyard, make_scene
from tools.raytrace import World

FAR = 1000.0  # metres to the sky
EACH = 8  # views of a kind
RAISED = 0.9  # metres above the middle that photographs aim, so that they show the sky
KINDS = ("between", "up", "outside")


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


def novel_cameras(cameras: list[Camera]) -> dict[str, Camera]:
    """Half-way between neighbours, there looking up, and outside the ring."""
    found = {}
    for k in range(EACH):
        i = k * (len(cameras) - 1) // EACH
        a, b = cameras[i], cameras[i + 1]
        eye = (a.position + b.position) / 2
        forward = a.w2c[2, :3] + b.w2c[2, :3]
        forward /= np.linalg.norm(forward)
        ways = {"between": (eye, forward), "up": (eye, forward + [0, 0, 0.7])}
        ways["outside"] = eye * [1.4, 1.4, 1.0], forward
        for kind, (place, way) in ways.items():
            w2c = make_scene._look_at(place, place + way)
            found[f"{kind}_{k}"] = replace(a, w2c=w2c)
    return found


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
    (out / "novel").mkdir(exist_ok=True)
    table = {}
    for name, camera in novel_cameras(cameras).items():
        Image.fromarray(make_scene.render(world, camera, supersample).image).save(
            out / "novel" / f"{name}.png"
        )
        table[name] = {"w2c": camera.w2c.tolist(), "K": camera.K.tolist()}
    (out / "novel" / "cameras.json").write_text(json.dumps(table))
    print(f"{out}: {views} views of {width}x{height}, {len(xyz)} points, {len(table)} novel views")


def _write_points(path: Path, xyz, rgb, seen: dict[int, np.ndarray]) -> None:
    """points3D.bin with tracks. seen: (N,) bool by number of the image."""
    data = [struct.pack("<Q", len(xyz))]
    for k, (point, color) in enumerate(zip(xyz, rgb)):
        track = [i for i, shown in seen.items() if shown[k]]
        data.append(struct.pack("<Q3d3BdQ", k + 1, *point, *color, 0.0, len(track)))
        data += [struct.pack("<2I", i, 0) for i in track]
    path.write_bytes(b"".join(data))


def measure(scene: Path, result: Path, renders: Path | None = None) -> dict[str, float]:
    """PSNR by kind, dB: the mean over its views."""
    file, config = find_model(result)
    splats, sky = load_drawn(file)
    own: dict = {"near": config.scene.near_plane}
    if sky is not None:
        own["background"] = sky.colors
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with Renderer(None, "tiled", antialiased=config.raster.antialiased) as renderer:
        for name, each in json.loads((scene / "novel" / "cameras.json").read_text()).items():
            truth = np.asarray(Image.open(scene / "novel" / f"{name}.png"))
            camera = Camera(each["w2c"], each["K"], truth.shape[1], truth.shape[0])
            image = np.clip(renderer.forward(splats, camera, **own)[0], 0, 1)
            error = np.mean((image - truth / 255.0) ** 2)
            found[name.split("_")[0]].append(-10 * np.log10(error))
            if renders:
                renders.mkdir(parents=True, exist_ok=True)
                Image.fromarray((255 * image).astype(np.uint8)).save(renders / f"{name}.png")
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def picture(scene: Path, results: list[Path], out: Path) -> None:
    """Rows of the three kinds; columns: the truth, and what `measure` has left of results."""
    folders = [scene / "novel", *(_renders(result) for result in results)]
    rows = [
        np.concatenate([np.asarray(Image.open(f / f"{kind}_3.png")) for f in folders], axis=1)
        for kind in KINDS
    ]
    Image.fromarray(np.concatenate(rows)).save(out, quality=88)


def _renders(result: Path) -> Path:
    return (result if result.is_dir() else result.with_suffix("")) / "novel"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.outdoors", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make")
    maker.add_argument("out", type=Path)
    sizes = dict(views=40, width=160, height=120, points=3500, supersample=2, seed=0)
    for name, default in sizes.items():
        maker.add_argument(f"--{name}", type=int, default=default)
    measurer = commands.add_parser("measure")
    measurer.add_argument("scene", type=Path)
    measurer.add_argument("results", type=Path, nargs="+")
    drawer = commands.add_parser("picture")
    drawer.add_argument("scene", type=Path)
    drawer.add_argument("results", type=Path, nargs="+")
    drawer.add_argument("--out", type=Path, required=True)
    given = vars(parser.parse_args(words))
    if (command := given.pop("command")) != "measure":
        {"make": make, "picture": picture}[command](**given)
        return
    for result in given["results"]:
        found = measure(given["scene"], result, _renders(result))
        print(f"{result}: " + ", ".join(f"{kind} {db:.2f} dB" for kind, db in found.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
