"""How time and memory of a training step grow with the number of splats and with the resolution.

python -m tools.cost_growth measure MODEL --data-dir SCENE --out growth.json
python -m tools.cost_growth plot growth.json --out docs/images/cost_growth.png

The model is subsampled, or repeated with jitter (app/hardsplat/study/bench/sizes.py); the views
keep their field of view at other sizes. Forward, backward and Adam, without the loss.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

MILLIONS = (0.25, 0.5, 1, 2, 4, 8)
SCALES = (0.5, 1, 2, 4)
VIEWS, REPEATS = 4, 3


def measure(model: Path, scene: Path, rasterizer: str, millions=MILLIONS, scales=SCALES) -> dict:
    from hardsplat.base.errors import UserError
    from hardsplat.gpu.probe import open_device
    from hardsplat.io.scenes.scene import load_scene
    from hardsplat.io.splats import load_splats
    from hardsplat.study.bench.measure import Bench
    from hardsplat.study.bench.sizes import resized

    gaussians, views, gpu = load_splats(model), load_scene(scene, 1).views, open_device(None)
    chosen = [views[i * len(views) // VIEWS] for i in range(VIEWS)]
    results = []
    for n, scale in [
        *((round(1e6 * m), 1) for m in millions),
        *((len(gaussians), s) for s in scales),
    ]:
        at = [
            replace(
                v,
                camera=v.camera.resized(
                    round(v.camera.width * scale), round(v.camera.height * scale)
                ),
            )
            for v in chosen
        ]
        bench = Bench(gpu, at, "random", REPEATS)
        bench.use(gaussians if n == len(gaussians) else resized(gaussians, n))
        try:
            result = bench.measure(rasterizer, {})
        except UserError as error:
            print(f"{n} splats at {scale}: {error}", flush=True)
            continue
        size = {"splats": n, "scale": scale, "width": bench.width, "height": bench.height}
        results.append(
            {
                **size,
                "visible": result.visible,
                "ms": result.total,
                "stages": result.stages,
                "memory": result.memory,
            }
        )
        print(
            f"{n} splats, {bench.width}x{bench.height}: {result.total:.3f} ms, "
            f"{sum(result.memory.values()) / 2**20:.0f} MiB",
            flush=True,
        )
    return {
        "device": gpu.name,
        "rasterizer": rasterizer,
        "model": model.name,
        "model_splats": len(gaussians),
        "rows": results,
    }


def plot(found: dict, out: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    n = found["model_splats"]
    by_splats = sorted((r for r in found["rows"] if r["scale"] == 1), key=lambda r: r["splats"])
    by_pixels = sorted(
        {r["scale"]: r for r in found["rows"] if r["splats"] == n}.values(),
        key=lambda r: r["scale"],
    )
    columns = (
        (by_splats, lambda r: r["splats"] / 1e6, "splats, millions"),
        (by_pixels, lambda r: r["width"] * r["height"] / 1e6, "pixels, millions"),
    )
    for column, (results, x, label) in enumerate(columns):
        for axis, y, unit in (
            (axes[0, column], lambda r: r["ms"], "ms a step"),
            (axes[1, column], lambda r: sum(r["memory"].values()) / 2**30, "GiB"),
        ):
            xs, ys = np.array([x(r) for r in results]), np.array([y(r) for r in results])
            axis.plot(xs, ys, "ko-", label="measured")
            axis.plot(xs, ys[0] * xs / xs[0], "k:", label="proportional to the first")
            axis.set(xlabel=label, ylabel=unit, xscale="log", yscale="log")
            axis.set_xticks(xs, [f"{value:.2g}" for value in xs])
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(
                FuncFormatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
            )
            axis.tick_params(axis="x", which="minor", labelbottom=False)
            axis.grid(alpha=0.3, which="both")
            axis.legend()
    figure.suptitle(
        f"{found['rasterizer']}, {found['model']}, {found['device']}: forward, backward and Adam"
    )
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "plot"))
    parser.add_argument("file", type=Path, help="model, or the JSON of what was measured")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rasterizer", default="tiled")
    parser.add_argument("--millions", type=float, nargs="*", default=MILLIONS)
    parser.add_argument("--scales", type=float, nargs="*", default=SCALES)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.what == "measure":
        given.out.write_text(
            json.dumps(
                measure(given.file, given.data_dir, given.rasterizer, given.millions, given.scales),
                indent=1,
            )
        )
    else:
        plot(json.loads(given.file.read_text()), given.out)
