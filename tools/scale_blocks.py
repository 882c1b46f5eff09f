"""Times blocks of a generated scene with many splats: what `hardsplat train --blocks` takes for
starts, steps, files, joining, measuring and drawing.

    python -m tools.scale_blocks scenes/courtyard OUT --side 4 --splats 16e6

The ground has SIDE x SIDE copies of a scene with its photographs. After a short scaffold, every
block starts from jittered copies of the scaffold's splats inside of it, SPLATS in all, trains STEPS
steps and writes its files. Prints a line of JSON: seconds of each phase and block, bytes on the
disk, peaks of device and host.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from hardsplat.blocks.plan import BlockPlan, SceneBlock, load_plan
from hardsplat.io.formats.base import PIECE, SplatStream
from hardsplat.io.scenes.colmap import ColmapCamera, ColmapImage, ColmapPoints, write_model
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats, save_stream
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.morton import order

APART = 1.5  # copies of the scene, in its width
SCAFFOLD = 300  # steps
SPREAD = 0.5  # of copies of a splat around it, in its scales


def spread_scene(scene: Scene, side: int, out: Path) -> None:
    """Writes a COLMAP scene of side x side copies, whose photographs are links."""
    ups = -np.mean([view.camera.w2c[1, :3] for view in scene.views], axis=0)
    across = np.linalg.svd(ups[None])[2][1:]
    places = scene.points @ across.T
    step = APART * float((np.quantile(places, 0.99, 0) - np.quantile(places, 0.01, 0)).max())
    (out / "images").mkdir(parents=True)
    c, images, points = scene.views[0].camera, {}, []
    lens = np.array([c.K[0, 0], c.K[1, 1], c.K[0, 2], c.K[1, 2]])
    for i, j in np.ndindex(side, side):
        offset = step * np.array([i, j]) @ across
        points.append(scene.points + offset)
        for view in scene.views:
            w2c, name, number = view.camera.w2c, f"{i}_{j}_{view.path.name}", len(images) + 1
            turn = np.roll(Rotation.from_matrix(w2c[:3, :3]).as_quat(), 1)
            at = w2c[:3, 3] - w2c[:3, :3] @ offset
            images[number] = ColmapImage(number, name, 1, turn, at)
            os.symlink(view.path.absolute(), out / "images" / name)
    cameras = {1: ColmapCamera(1, "PINHOLE", c.width, c.height, lens)}
    points, colors = np.concatenate(points), np.tile(scene.colors, (side * side, 1))
    write_model(
        out / "sparse/0", cameras, images, ColmapPoints(points, colors, np.zeros(len(points)))
    )


def write_start(file: Path, block: SceneBlock, plan: BlockPlan, splats: Gaussians, n: int) -> None:
    """Writes n jittered copies of the splats that a block owns, with SH of degree 3."""
    mine = splats[block.box.holds(plan.places(splats.means))]
    mine = mine[order(mine.means)]
    smaller = np.float32(min(1.0, (len(mine) / n) ** 0.5))

    def pieces():
        rng = np.random.default_rng(0)
        for at in range(0, n, PIECE):
            some = mine[np.arange(at, min(at + PIECE, n)) * len(mine) // n]
            sh = np.zeros((len(some), 16, 3), np.float32)
            sh[:, : some.sh.shape[1]] = some.sh
            jitter = rng.standard_normal((len(some), 3), np.float32) * (SPREAD * some.scales)
            yield replace(some, means=some.means + jitter, scales=some.scales * smaller, sh=sh)

    save_stream(file, SplatStream(n, 3, pieces))


def timed(*words) -> float:
    """Seconds of a hardsplat command. Ends the program where it fails."""
    began = time.perf_counter()
    if subprocess.run([sys.executable, "-m", "hardsplat", *map(str, words)]).returncode:
        sys.exit(f"hardsplat {words[0]} failed")
    return time.perf_counter() - began


def size_of(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=Path, help="with one pinhole camera")
    parser.add_argument("out", type=Path, help="a folder that is not there")
    parser.add_argument("--side", type=int, default=4)
    parser.add_argument("--splats", type=float, default=4e6)
    parser.add_argument("--steps", type=int, default=100, help="of a block")
    parser.add_argument("--blocks", default="2x2")
    parser.add_argument("--devices", default="0", help="as --block-devices")
    args = parser.parse_args()
    site, run, n = args.out / "site", args.out / "run", int(args.splats)
    spread_scene(load_scene(args.scene), args.side, site)
    how = ["--max-steps", SCAFFOLD, "--cap-max", n, "--quiet", "--exposure", "none"]
    first = args.devices.split(",")[0]
    how += ["--rasterizer", "tiled", "--device", first, "--block-devices", args.devices]
    seconds = {"plan": timed("plan", site, "--blocks", args.blocks, *how, "--result-dir", run)}
    began, scene, splats = (
        time.perf_counter(),
        load_scene(site),
        load_splats(run / "scaffold/splats.ply"),
    )
    names = [scene.views[i].name for i in scene.train]
    plan = load_plan(run / "plan.json", names, scene.name)
    each = n // len(plan.blocks)
    blocks = [
        replace(b, cap=each, steps=args.steps, start=f"start-{b.name}.ply") for b in plan.blocks
    ]
    plan = replace(plan, blocks=tuple(blocks))
    plan.save(run / "plan.json")
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda b: write_start(run / b.start, b, plan, splats, each), blocks))
    seconds["starts"] = time.perf_counter() - began
    seconds["train"] = timed(
        "train", site, "--blocks", args.blocks, *how, "--polish-steps", 0, "--result-dir", run
    )
    seconds["render"] = timed(
        "render", run, "--frames", 8, "--width", 640, "-o", args.out / "frames"
    )
    metrics = json.loads((run / "metrics.json").read_text())
    peaks = [json.loads((run / "blocks" / b.name / "metrics.json").read_text()) for b in blocks]
    print(
        json.dumps(
            {
                "splats": metrics["splats"],
                "photographs": len(names),
                "seconds": seconds,
                "phases": metrics["seconds"],
                "blocks": [b | {"splats": b["splats"]} for b in metrics["blocks"].values()],
                "device_bytes": [p["memory_peak"] for p in peaks],
                "step_ms": [p["step_ms"] for p in peaks],
                "psnr": metrics["evaluations"][0]["psnr"],
                "disk_bytes": size_of(run),
                "host_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
            }
        )
    )


if __name__ == "__main__":
    main()
