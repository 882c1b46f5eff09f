"""Stochastic gradients in numbers: what docs/results/fits.md has of them.

Three commands, of which the last compares run folders by --eval-steps:

    python -m tools.stochastic_report converge docs/images/stochastic_convergence.png
    python -m tools.stochastic_report time SCENE [--model FILE] [flags of hardsplat train]
    python -m tools.stochastic_report compare RUN RUN ...
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np

from hardsplat.cli.flags import Parser, add_setting, settings
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats
from hardsplat.raster.backends import fastest
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import FIELDS
from hardsplat.train.job.job import Job
from hardsplat.train.job.views import training_views
from hardsplat.train.run.start import initial_gaussians
from hardsplat.train.session.session import Session
from hardsplat.train.step.photos import Photos

BATCH, BATCHES = 10, 8  # steps; the last of each batch is timed
STILL = {f"{name}_lr": 0.0 for name in ("scales", "opacities", "quats", "sh0", "shN")} | {
    "means_lr": 1e-15,
    "means_lr_final": 1e-15,
}  # always the same splats


def time_steps(device: Device, config, gaussians=None) -> dict[str, float]:
    """Medians of milliseconds on the GPU: of a training step and of a forward render (projection,
    sort, draw) of the same splats and views."""
    scene = load_scene(config.scene.data_dir, config.scene.data_factor, config.scene.test_every)
    views = [scene.views[i] for i in scene.train]
    photos = Photos(device, [v.load() for v in views], config.run.images, ring=2 * BATCH)
    batches = []
    job = Job.of(config, training_views(scene), device)
    session = Session(device, job, photos, batches.append)
    degree, seed = config.model.sh_degree, config.run.seed
    session.start(gaussians or initial_gaussians(config.start, scene, degree, seed))
    renders, recorder = [], None
    for _ in range(BATCHES):
        session.run(BATCH)
        session.drain()
        if recorder is None or recorder.resources["splats2d"] is not session.resources["splats2d"]:
            recorder = Recorder(device, {**session.resources, **session.parameters.all}, timed=True)
            session.raster.record_forward(recorder)
            recorder.end()
        recorder.run_once()
        renders.append(sum(recorder.times().values()))
    steps = [sum(b.stages.values()) for b in batches]
    stages = {
        name: float(np.median([b.stages.get(name, 0.0) for b in batches[1:]]))
        for name in batches[-1].stages
    }
    result = {
        "splats": session.count(),
        "step": float(np.median(steps[1:])),
        "forward": float(np.median(renders[1:])),
        "stages": stages,
    }
    recorder.destroy()
    session.destroy()
    return result


def main_time(words: list[str]) -> None:
    parser = Parser()
    parser.add_argument("scene")
    parser.add_argument("--model")
    for name in FIELDS:
        add_setting(parser, name)
    flags = vars(parser.parse_args(words))
    model = load_splats(Path(flags.pop("model"))) if "model" in flags else None
    flags["data_dir"] = flags.pop("scene")
    given = settings(flags)
    device = open_device(given.get("device"))
    print(f"{device.name}, {device.physical.driver}; {' '.join(sys.argv[1:])}\n")
    print(
        "| rasterizer | gradient | splats | forward ms | step ms | step / 2 forwards "
        "|\n|---|---|---|---|---|---|"
    )
    slowest = {}
    for rasterizer, kind in itertools.product(("hardware", "tiled"), ("stochastic", "analytic")):
        changes = {} if kind == "stochastic" else {"strategy": "none"}
        config = load_config(None, {**given, "rasterizer": rasterizer, "gradient": kind, **changes})
        config = config.changed(rasterizer=fastest(device, config.raster, config.gradient))
        config = config.changed(
            sh_degree=config.model.sh_degree if model is None else model.sh_degree,
            sh_degree_interval=1,
            **STILL,
        )
        found = time_steps(device, config, model)
        ratio = found["step"] / (2 * found["forward"])
        print(
            f"| {rasterizer} | {kind} | {found['splats']} | {found['forward']:.3f} | "
            f"{found['step']:.3f} | {ratio:.2f} |",
            flush=True,
        )
        slowest[f"{rasterizer} {kind}"] = sorted(
            found["stages"].items(), key=lambda item: -item[1]
        )[:7]
    print()
    for kind, stages in slowest.items():
        print(f"{kind}: " + ", ".join(f"{name} {ms:.3f}" for name, ms in stages))


def main_converge(words: list[str]) -> None:
    """The experiment of tests/raster/test_stochastic.py, three times, drawn."""
    import matplotlib

    from tests.oracle import spsa

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from tests.helpers.stochastic import SEED, Estimates, Scene, errors_by_samples, estimates_of

    counts, device = 4 ** np.arange(7), open_device(None)
    figure, axes = plt.subplots(figsize=(6, 4))
    few = dict(seed=11, n=5, width=16, height=16)
    many = dict(seed=12, n=16, width=32, height=24, sh_degree=2, overlap=5.0)
    for label, marker, scene, options in (
        ("5 splats", "o", few, {}),
        ("16 splats", "s", many, {}),
        ("16 splats, float16", "^", many, {"format": "float16"}),
    ):
        scene = Scene(**scene)
        c = scene.steps()
        weights, samples = spsa.flat(c), []
        run = Estimates(device, scene, gradient_pairs=16, **options)
        for step in range(int(counts[-1]) // 16):
            samples += [
                weights
                * spsa.flat(
                    estimates_of(sums, spsa.signs(SEED, step, pair, scene.n, scene.planes), c)
                )
                for pair, sums in enumerate(run.run())
            ]
        run.destroy()
        errors = errors_by_samples(np.array(samples), weights * spsa.flat(scene.analytic()), counts)
        slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
        print(
            f"{label}, {len(weights)} parameters:", errors.round(4).tolist(), f"slope {slope:.3f}"
        )
        axes.loglog(
            counts,
            errors,
            marker=marker,
            label=f"{label}, {len(weights)} parameters: slope {slope:.3f}",
            linewidth=1,
            markersize=5,
        )
        axes.loglog(
            counts,
            errors[0] / np.sqrt(counts),
            "k--",
            linewidth=0.8,
            label="1/sqrt(samples)" if scene.n > 5 and not options else None,
        )
    axes.set_xlabel("samples averaged")
    axes.set_ylabel("relative error of the gradient")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(words[0], dpi=130)


def main_compare(words: list[str]) -> None:
    print("| run | gradient | steps | seconds | held-out PSNR |\n|---|---|---|---|---|")
    for word in words:
        metrics = json.loads((Path(word) / "metrics.json").read_text())
        gradient = metrics["variants"].get("gradient", "analytic")
        for e in metrics["evaluations"]:
            print(
                f"| {Path(word).name} | {gradient} | {e['step']} | "
                f"{e['training_seconds']:.1f} | {e['psnr']:.2f} |"
            )


if __name__ == "__main__":
    {"time": main_time, "converge": main_converge, "compare": main_compare}[sys.argv[1]](
        sys.argv[2:]
    )
