"""What a page of `hardsplat export` costs and how near it comes to our own renderer, in Chromium
with WebGL in software.

python -m tools.page_report results/courtyard --out out/courtyard.html [--picture
docs/images/web.jpg] [--export "--max-splats 900000"]

Prints a row of the table in docs/results/page.md. The first picture is timed from the start of
navigation to its last pixel, in five new browsers, and the processor time until then is said, which
tells more on a machine that has other work; PSNR is of screenshots at the size of the training
cameras against `hardsplat.Renderer` drawing the splats as they were trained.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from tools.devtools import Browser

STATE = "document.querySelector('.hs')?.dataset.state == 'ready'"
FIRST = "document.querySelector('.hs')?.dataset.first"
STATS = "document.querySelector('.hs-numbers').textContent"


def report(
    result: Path,
    page: Path,
    data_dir: Path | None,
    flags: list[str],
    views: int,
    picture: Path | None,
    size: tuple[int, int],
    scale: float,
) -> str:
    from hardsplat.cli import main
    from hardsplat.io.scenes.scene import load_scene
    from hardsplat.io.splats import load_splats
    from hardsplat.raster.renderer import Renderer
    from hardsplat.results.model import find_model

    began = time.monotonic()
    scene_flags = ["--data-dir", str(data_dir)] if data_dir else []
    if main(["export", str(result), str(page), *scene_flags, *flags]):
        raise SystemExit(2)
    seconds = time.monotonic() - began
    file, config = find_model(result, data_dir)
    scene = load_scene(config.scene.data_dir, config.scene.data_factor, config.scene.test_every)
    gaussians = load_splats(file)
    cameras = [scene.views[i].camera for i in scene.train]
    width, height = (round(scale * side) for side in (cameras[0].width, cameras[0].height))

    first, work = [], []
    for _ in range(5):
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            Browser(Path(folder), (width, height)) as browser,
        ):
            before = browser.cpu_seconds()
            browser.open(page.resolve().as_uri())
            browser.wait(FIRST, 300)
            work.append(browser.cpu_seconds() - before)
            browser.wait(STATE, 300)
            first.append(int(browser.run(FIRST)) / 1000)
            stats = browser.run(STATS)
            assert not browser.complaints, browser.complaints

    quality, sorts = [], []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Browser(Path(folder), (width, height)) as browser,
    ):
        with Renderer(
            config.run.device, "tiled", antialiased=config.raster.antialiased
        ) as renderer:
            for i in range(0, len(cameras), max(1, len(cameras) // views)):
                # or else the page would stay, and only its camera change
                browser.open("about:blank")
                browser.open(f"{page.resolve().as_uri()}#camera={i}&still")
                browser.wait(STATE, 300)
                sorts.append(float(re.search(r"sort ([0-9.]+) ms", browser.run(STATS))[1]))
                image = np.asarray(browser.screenshot()) / 255
                wanted = np.clip(
                    renderer.forward(
                        gaussians, cameras[i].resized(width, height), near=config.scene.near_plane
                    )[0],
                    0,
                    1,
                )
                quality.append(-10 * np.log10(np.mean((image - wanted) ** 2)))
    if picture:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            Browser(Path(folder), size) as browser,
        ):
            browser.open(page.resolve().as_uri())
            browser.wait(STATE, 300)
            browser.wait("!document.querySelector('.hs-first')")
            browser.screenshot().save(picture, quality=88)
    drawn, all_splats = re.match(r"([0-9,]+) of ([0-9,]+) splats", stats).groups()
    print(f"load average {os.getloadavg()[0]:.1f}; last line of the page: {stats}")
    return (
        f"| {result.name} | {len(gaussians):,} | {all_splats} | "
        f"{page.stat().st_size / 1e6:.2f} MB | {seconds:.1f} s |"
        f" {statistics.mean(quality):.1f} dB ({min(quality):.1f} to {max(quality):.1f}) |"
        f" {statistics.median(first):.1f} s ({min(first):.1f} to {max(first):.1f}) | "
        f"{statistics.median(work):.1f} s ({min(work):.1f} to {max(work):.1f}) |"
        f" {drawn} | {statistics.median(sorts):.1f} ms | {width}x{height} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--export", default="", help="flags of hardsplat export")
    parser.add_argument("--views", type=int, default=5, help="training cameras that are compared")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of the window over that of the cameras"
    )
    parser.add_argument(
        "--picture", type=Path, help="a screenshot with all that is around the canvas"
    )
    parser.add_argument(
        "--size", type=int, nargs=2, default=(1000, 640), metavar="PX", help="of that screenshot"
    )
    flags = parser.parse_args()
    print(
        report(
            flags.result,
            flags.out,
            flags.data_dir,
            shlex.split(flags.export),
            flags.views,
            flags.picture,
            tuple(flags.size),
            flags.scale,
        )
    )
