"""What each format of files costs and loses: a Markdown table of bytes, seconds and PSNR of renders
after a format against before.

    python -m tools.format_table MODEL --data-dir SCENE [--views N] [--formats spz sog ...]
        [--rasterizer tiled]

MODEL is any file of splats. It is drawn from N held-out photographs' cameras, evenly spaced, before
and after each format. "loss" is what the PSNR against the photographs themselves changes by.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hardsplat.export.convert import convert
from hardsplat.io.formats import FILE_FORMATS
from hardsplat.io.media.images import over
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.scenes.views import View
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(max(np.mean((np.clip(a, 0, 1) - np.clip(b, 0, 1)) ** 2), 1e-12)))


def drawn(renderer: Renderer, gaussians: Gaussians, views: list[View]) -> list[np.ndarray]:
    return [renderer.forward(gaussians, view.camera)[0] for view in views]


def table(model: Path, scene_dir: Path, number: int, names: list[str], rasterizer: str) -> str:
    scene = load_scene(scene_dir, 1)
    chosen = np.array(scene.test)[
        np.unique(np.linspace(0, len(scene.test) - 1, number).round().astype(int))
    ]
    views = [scene.views[i] for i in chosen]
    photos = [over(view.load(), np.zeros(3)) / 255 for view in views]
    lines = [
        "| format | bytes | a splat | of the PLY | PSNR to before, dB | loss, dB | "
        "write, s | read, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder, Renderer(rasterizer=rasterizer) as renderer:
        original = Path(folder) / "original.ply"
        before = load_splats(model)
        save_splats(original, before)
        ply, first = original.stat().st_size, drawn(renderer, before, views)
        quality = np.mean([psnr(a, p) for a, p in zip(first, photos)])
        for name in names:
            path = Path(folder) / f"a{FILE_FORMATS[name].suffix}"
            written = convert(original, path, quiet=True)
            begun = time.perf_counter()
            after = load_splats(path)
            seconds = time.perf_counter() - begun
            images = drawn(renderer, after, views)
            to_before = np.mean([psnr(a, b) for a, b in zip(images, first)])
            loss = quality - np.mean([psnr(a, p) for a, p in zip(images, photos)])
            lines.append(
                f"| `{FILE_FORMATS[name].suffix}` | {written.size:,} | "
                f"{written.size / len(before):.1f} | 1/{ply / written.size:.1f} | "
                f"{f'{to_before:.1f}' if to_before < 100 else 'same'} | {loss:+.3f} | "
                f"{written.seconds:.1f} | {seconds:.1f} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
            path.unlink()
    head = (
        f"{model}: {len(before)} splats of SH degree {before.sh_degree}, {quality:.2f} dB "
        f"against the photographs of {len(views)} held-out views.\n"
    )
    return "\n".join([head, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--views", type=int, default=8)
    parser.add_argument(
        "--formats",
        nargs="+",
        default=[name for name, row in FILE_FORMATS.items() if row.writes],
        choices=list(FILE_FORMATS),
    )
    parser.add_argument("--rasterizer", default="tiled")
    flags = parser.parse_args()
    print(table(flags.model, flags.data_dir, flags.views, flags.formats, flags.rasterizer))


if __name__ == "__main__":
    main()
