"""What others show of our files: a Markdown table of formats by viewers.

    python -m tools.foreign MODEL --data-dir SCENE [--views N] [--data-factor N]
        [--formats .ply .spz ...] [--viewers playcanvas spark]

MODEL is any file of splats, written in each format first. Numbers are PSNR in dB: of the
photographs of N held-out views, and in brackets of what hardsplat draws of the same file. Each
viewer draws as it comes, and as the original 3DGS does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from hardsplat.io.media.images import over
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.framing import spread
from hardsplat.raster.renderer import Renderer
from tools.foreign import VIEWERS, Foreign


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(max(np.mean((np.clip(a, 0, 1) - np.clip(b, 0, 1)) ** 2), 1e-12)))


MODES = {"as it comes": False, "as the original": True}


def main() -> None:
    kinds = list(dict.fromkeys(kind for v in VIEWERS.values() for kind in v.formats))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--views", type=int, default=5)
    parser.add_argument("--data-factor", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=kinds, choices=kinds)
    parser.add_argument("--viewers", nargs="+", default=list(VIEWERS), choices=list(VIEWERS))
    flags = parser.parse_args()
    scene = load_scene(flags.data_dir, flags.data_factor)
    views = [scene.held_out[i] for i in spread(len(scene.test), flags.views)]
    photos = [over(view.load(), np.zeros(3)) / 255 for view in views]
    cameras = [view.camera for view in views]
    splats = load_splats(flags.model)
    rows = {kind: [""] * (2 * len(flags.viewers)) for kind in flags.formats}
    with tempfile.TemporaryDirectory() as name:
        folder, ours = Path(name), {}
        with Renderer(rasterizer="tiled") as renderer:
            for kind in flags.formats:
                save_splats(path := folder / f"a{kind}", splats)
                again = load_splats(path)
                images = [renderer.forward(again, camera)[0] for camera in cameras]
                ours[kind] = [np.clip(image, 0, 1) for image in images]
                mean = np.mean([psnr(a, b) for a, b in zip(ours[kind], photos)])
                rows[kind].insert(0, f"{path.stat().st_size:,} | {mean:.2f}")
        for i, viewer in enumerate(flags.viewers):
            for j, original in enumerate(MODES.values()):
                at = Path(tempfile.mkdtemp(dir=folder))
                with Foreign(viewer, at, original) as eye:
                    for kind in (k for k in flags.formats if k in eye.viewer.formats):
                        theirs = list(eye.pictures(folder / f"a{kind}", cameras))
                        found = (
                            np.mean([psnr(a, b) for a, b in zip(theirs, others)])
                            for others in (photos, ours[kind])
                        )
                        cell = "{:.2f} ({:.1f})".format(*found)
                        rows[kind][1 + 2 * i + j] = cell
                        print(viewer, original, kind, cell, file=sys.stderr, flush=True)
    names = [
        f"{VIEWERS[v].package} {VIEWERS[v].version}, {m}" for v in flags.viewers for m in MODES
    ]
    print(
        f"{flags.model}: {len(splats)} splats of SH degree {splats.sh_degree}, {len(views)} views\n"
    )
    print(" | ".join(["| format | bytes | hardsplat", *names]) + " |")
    print("|---" * (3 + len(names)) + "|")
    for kind, cells in rows.items():
        print(f"| `{kind}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
