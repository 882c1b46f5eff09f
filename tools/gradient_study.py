"""How good gradients are by format of target and state: tables and plots of docs/GRADIENTS.md.

    python -m tools.gradient_study oracle                              against float64, on random
        scenes of growing depth
    python -m tools.gradient_study model MODEL --data-dir SCENE        against float32, on a trained
        model
    python -m tools.gradient_study train SCENE --max-steps 600         PSNR after training
    python -m tools.gradient_study report                              whatever of these there is,
        as Markdown and PNG

Each writes one JSON into --result-dir. An error is a relative L2 distance over all splats; cosine
similarity stands beside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats
from hardsplat.raster.core.resolve import name_of, resolve
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from hardsplat.results.folder import write_json
from hardsplat.settings.option import flag
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS
from hardsplat.train.step.loss import LOSS_PASSES, allocate_loss, loss_terms, record_loss
from hardsplat.train.step.photos import pack

CLASSES = ("means", "quats", "scales", "opacities", "sh")
KEYS = ("format", "state_format", "blending", "block")
WAITING = {name: row for name, row in ORDERINGS.items() if not row.listed}
DEPTHS = {
    "4 deep": (4, (0.1, 0.9)),
    "12 deep": (12, (0.1, 0.9)),
    "40 deep": (40, (0.1, 0.9)),
    "40 deep, faint": (40, (0.02, 0.3)),
}
SH0 = 0.28209479177387814  # the constant spherical harmonic


def variants(flags) -> list[dict]:
    """Every combination asked for. A state of blocks is float32 or halves, so they are given no
    other; unorm8 states follow unorm8 targets only."""
    out = []
    for format, blending, block in itertools.product(flags.format, flags.blending, flags.block):
        states = (
            [s for s in FORMATS if s != "unorm8" or format == "unorm8"]
            if block == "1x1"
            else ["float16", "float32"]
        )
        out += [
            dict(zip(KEYS, (format, state, blending, block)))
            for state in states
            if state in flags.state_format
        ]
    return out


def waiting(gpu: Device) -> str:
    """The ordering of fragments that wait for each other, whose states are studied. Raises
    UserError where there is none."""
    return name_of(WAITING, resolve(gpu, "ordering that waits", WAITING, "auto", "--ordering"))


def compare(actual: dict, exact: dict) -> dict:
    """Relative L2 and cosine by parameter class."""
    l2, cosine = {}, {}
    for name in CLASSES:
        a = np.asarray(actual[name], np.float64).ravel()
        b = np.asarray(exact[name], np.float64).ravel()
        l2[name] = float(np.linalg.norm(a - b) / np.linalg.norm(b))
        cosine[name] = float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))
    return {"l2": l2, "cosine": cosine}


def median(rows: list[dict]) -> dict:
    return {
        kind: {name: float(np.median([row[kind][name] for row in rows])) for name in rows[0][kind]}
        for kind in rows[0]
    }


def dimmed(gaussians: Gaussians, by: float) -> Gaussians:
    """The same splats with colours divided by `by`: what a unorm target of the range 0..by
    holds."""
    sh = gaussians.sh / by
    sh[:, 0] += (0.5 / by - 0.5) / SH0
    return Gaussians(
        gaussians.means,
        gaussians.quats,
        gaussians.scales,
        gaussians.opacities,
        sh.astype(np.float32),
    )


def gradients(renderer, gaussians, camera, d_image, background, near, by=1.0) -> dict:
    """by: divisor of all colours, whose effect on gradients is taken back."""
    renderer.forward(
        dimmed(gaussians, by) if by != 1 else gaussians,
        camera,
        background=np.divide(background, by),
        near=near,
    )
    out = renderer.backward(d_image * np.float32(by))
    return {**out, "sh": out["sh"] / by}


def study(flags, gpu, cases) -> list[dict]:
    """Rows over all variants. cases: name -> [(gaussians, camera, d_image, background, near,
    {blending: exact gradients})]."""
    rows, wanted = [], [(v, 1.0) for v in variants(flags)]
    wanted += [(v, 4.0) for v, _ in wanted if v["format"] == "unorm16" and v["block"] == "2x2"]
    for variant, by in tqdm(wanted, desc="variants", unit="", disable=flags.quiet):
        try:
            with Renderer(gpu, **variant, ordering=waiting(gpu)) as renderer:
                for name, case in cases.items():
                    errors = [
                        compare(gradients(renderer, *inputs, by=by), exact[variant["blending"]])
                        for *inputs, exact in case
                    ]
                    rows.append({**variant, "range": by, "case": name, **median(errors)})
        except UserError as error:
            tqdm.write(f"skipped {variant}: {error}")
    return rows


# -- against float64 -------------------------------------------------------------------------------


def oracle(flags) -> dict:
    from tests.helpers.goldens import random_scene, scene_of
    from tests.oracle import render

    gpu, cases, emulated = open_device(flags.device), {}, {}
    background = (0.2, 0.5, 0.8)
    for name, (overlap, opacity) in tqdm(
        DEPTHS.items(), desc="float64", unit="case", disable=flags.quiet
    ):
        cases[name], rounded = [], []
        for seed in range(flags.scenes):
            scene = random_scene(
                seed, max(200, 17 * overlap), 61, 47, 2, overlap=overlap, opacity=opacity
            )
            scene["sh"] *= 0.05  # colours well inside 0..1, which is all that a unorm target holds
            scene["sh"][:, 0] = np.clip(scene["sh"][:, 0] * 10, -1, 1)
            weight = scene["weight"].astype(np.float64)
            ends = {"fixed": "none", "programmable": "after"}
            frames = {
                b: render(**scene_of(scene), background=background, termination=ends[b])
                for b in ends
            }
            exact = {b: frame.backward(weight) for b, frame in frames.items()}
            splats = Gaussians(*(scene[k] for k in CLASSES))
            cases[name].append(
                (
                    splats,
                    Camera(scene["w2c"], scene["K"], 61, 47),
                    scene["weight"],
                    background,
                    0.01,
                    exact,
                )
            )
            rounded.append(
                {
                    kind: compare(
                        blended(frames["fixed"], background, rounding).backward(weight),
                        exact["fixed"],
                    )["l2"]
                    for kind, rounding in ROUNDINGS.items()
                }
            )
        emulated[name] = median(rounded)
    return {
        "about": f"{flags.scenes} random scenes a depth, 61x47, {gpu.name}",
        "rows": study(flags, gpu, cases),
        "emulated": emulated,
    }


def _nearest(step):
    return lambda x: np.round(x / step) * step


def _towards_zero(x):
    half = x.astype(np.float16)
    return np.where(np.abs(half) > np.abs(x), np.nextafter(half, np.float16(0)), half).astype(
        np.float64
    )


def _stochastic(x, rng=np.random.default_rng(0)):
    return np.floor(x * 255 + rng.random(x.shape)) / 255


ROUNDINGS = {  # what a target may do with each blended colour
    "unorm8, nearest": _nearest(1 / 255),
    "unorm8, stochastic": _stochastic,
    "float16, towards zero": _towards_zero,
    "float16, nearest": lambda x: x.astype(np.float16).astype(np.float64),
    "unorm16 of 0..4, nearest": _nearest(4 / 65535),
    "unorm16, nearest": _nearest(1 / 65535),
}


def blended(frame, background, rounding):
    """A float64 frame whose colour went through a target that rounds after each blend, back to
    front; its backward pass is exact."""
    from tests.oracle.render import _fragments

    color = np.zeros_like(frame.image)
    for i, window, _, _, alpha, _ in reversed(
        list(_fragments(frame.projection, *frame.T.shape, "none"))
    ):
        mixed = (
            color[window] * (1 - alpha[..., None]) + alpha[..., None] * frame.projection.color[i]
        )
        color[window] = np.where(alpha[..., None] > 0, rounding(mixed), color[window])
    return replace(frame, image=color + frame.T[..., None] * np.asarray(background))


# -- against float32 -------------------------------------------------------------------------------


def loss_gradient(gpu, renderer, camera, photo) -> np.ndarray:
    """d_image of L1 + D-SSIM for what `renderer` drew last."""
    own = {
        n: Buffer(gpu, k * contract.itemsize(n), n)
        for n, k in (
            ("loss_terms", 1),
            ("history", contract.CONSTANTS["HISTORY"]),
            ("photos", photo.shape[0] * photo.shape[1]),
        )
    }
    own |= allocate_loss(gpu, camera.width, camera.height)
    own["loss_terms"].upload(loss_terms(TrainConfig().flat()))
    own["photos"].upload(pack(photo))
    recorder = Recorder(gpu, {**renderer.resources, **own})
    record_loss(recorder, build_all(gpu, LOSS_PASSES), camera.width, camera.height)
    recorder.end().run_once()
    d_image = own["d_image"].download()[..., :3].copy()
    for part in (recorder, *own.values()):
        part.destroy()
    return d_image


def model(flags) -> dict:
    gpu = open_device(flags.device)
    gaussians = load_splats(flags.model)
    scene = load_scene(flags.data_dir)
    chosen = [
        i * max(len(scene.views) // flags.views, 1)
        for i in range(min(flags.views, len(scene.views)))
    ]
    cases = {kind: [] for kind in flags.upstream}
    for i, kind in tqdm(
        list(itertools.product(chosen, flags.upstream)),
        desc="float32",
        unit="",
        disable=flags.quiet,
    ):
        view, exact, d_image = scene.views[i], {}, None
        background = (1.0, 1.0, 1.0) if kind == "random" else (0.0, 0.0, 0.0)
        for blending in flags.blending:
            with Renderer(
                gpu, format="float32", blending=blending, ordering=waiting(gpu)
            ) as reference:
                reference.forward(gaussians, view.camera, background=background, near=0.2)
                # every variant is given the same one: this compares rasterizers, not losses
                if d_image is None:
                    size = (view.camera.height, view.camera.width, 3)
                    d_image = (
                        np.random.default_rng(i).random(size, np.float32)
                        if kind == "random"
                        else loss_gradient(gpu, reference, view.camera, view.load())
                    )
                exact[blending] = reference.backward(d_image)
        cases[kind].append((gaussians, view.camera, d_image, background, 0.2, exact))
    about = (
        f"{Path(flags.model).name}: {len(gaussians)} splats, "
        f"{view.camera.width}x{view.camera.height}, views {chosen}, {gpu.name}"
    )
    return {"about": about, "rows": study(flags, gpu, cases)}


# -- what training makes of it ---------------------------------------------------------------------


def train(flags) -> dict:
    from hardsplat.train.run.trainer import train as run

    rows, base = [], load_config(flags.config).changed(ordering=waiting(open_device(flags.device)))
    for variant in tqdm(variants(flags), desc="runs", unit="", disable=flags.quiet):
        folder = flags.result_dir / "train" / "-".join(variant.values())
        kept = folder / "metrics.json"
        try:
            if kept.is_file() and json.loads(kept.read_text())["steps"] == flags.max_steps:
                metrics = json.loads(kept.read_text())
            else:
                metrics = run(
                    base.changed(
                        data_dir=flags.scene,
                        result_dir=folder,
                        max_steps=flags.max_steps,
                        device=flags.device,
                        quiet=True,
                        **variant,
                    )
                )
        except UserError as error:
            tqdm.write(f"skipped {variant}: {error}")
            continue
        last = metrics["evaluations"][-1]
        rows.append(
            {
                **variant,
                **{k: last[k] for k in ("psnr", "ssim", "splats", "training_seconds")},
                "device": metrics["device"]["name"],
            }
        )
    if not rows:
        raise UserError("no variant could be trained; see hardsplat doctor")
    return {
        "about": f"{flags.scene.name}, {flags.max_steps} steps, {rows[0]['device']}",
        "rows": rows,
    }


# -- command line ----------------------------------------------------------------------------------


def report(flags) -> None:
    from tools.gradient_report import report as write

    print(write(flags.result_dir))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.gradient_study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = parser.add_subparsers(dest="step", required=True)
    for step in (oracle, model, train, report):
        each = steps.add_parser(step.__name__)
        each.set_defaults(run=step)
        each.add_argument(
            "--result-dir",
            type=Path,
            default=Path("results/gradients"),
            help="folder of the JSON files, the report and its plots",
        )
        if step is report:
            continue
        each.add_argument("--device", help="Vulkan device, by index or part of its name")
        each.add_argument("--quiet", action="store_true", help="no progress bars")
        for name, registry in (
            ("format", FORMATS),
            ("state_format", FORMATS),
            ("blending", {name: row for name, row in BLENDINGS.items() if not row.listed}),
            ("block", BLOCKS),
        ):
            default = (
                {"blending": ["fixed"], "block": ["2x2"]}.get(name, list(registry))
                if step is train
                else list(registry)
            )
            each.add_argument(
                flag(name),
                nargs="+",
                choices=tuple(registry),
                default=default,
                help="only these (default: %(default)s)",
            )
        if step is oracle:
            each.add_argument(
                "--scenes",
                type=int,
                default=4,
                help="random scenes of each depth; their median counts",
            )
        if step is model:
            each.add_argument("model", help="splats: .ply, or .npz with gsplat's parameter names")
            each.add_argument(
                "--data-dir",
                required=True,
                help="scene whose cameras are used; its photographs only for upstream loss",
            )
            each.add_argument(
                "--views", type=int, default=1, help="views, evenly spaced; their median counts"
            )
            each.add_argument(
                "--upstream",
                nargs="+",
                choices=("random", "loss"),
                default=["random", "loss"],
                help="uniform in 0..1, or of L1 + D-SSIM",
            )
        if step is train:
            each.add_argument("scene", type=Path)
            each.add_argument("--max-steps", type=int, default=600)
            each.add_argument("--config", help="preset or file of settings, as of hardsplat train")
    return parser.parse_args()


def main() -> None:
    flags = arguments()
    try:
        for name in ("scenes", "views", "max_steps"):
            if getattr(flags, name, 1) < 1:
                raise UserError(f"{flag(name)} {getattr(flags, name)}: at least 1")
        flags.result_dir.mkdir(parents=True, exist_ok=True)
        result = flags.run(flags)
        if result:
            write_json(flags.result_dir / f"{flags.step}.json", result)
    except (UserError, OSError) as error:
        sys.exit(f"gradient_study: error: {error}")


if __name__ == "__main__":
    main()
