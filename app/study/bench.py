"""`hardsplat bench`: GPU milliseconds of every stage, fragments, memory and gradient error, for every variant asked for.

Upstream gradients: `random`, uniform in 0..1 as in Yuan & He 2025, or `loss`, the L1 + D-SSIM of training against the scene's photographs.
Every view is drawn `repeats` times after a warm-up; stages are medians over repeats, then means over views. Learning rates are 0: the model stays.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from tqdm import tqdm

from app import contract
from app.api import Renderer, camera_row, frame_row
from app.config import TrainConfig
from app.errors import UserError
from app.gaussians import Gaussians
from app.gpu.context import Device
from app.gpu.memory import Buffer
from app.gpu.passes import build_all
from app.gpu.probe import open_device
from app.gpu.recorder import Recorder
from app.io.scene import Scene, load_scene
from app.io.splats import load_splats
from app.raster import BACKENDS
from app.raster.parameters import FIELDS, MOMENTS, Parameters
from app.train.loss import LOSS_PASSES, allocate_loss, record_loss
from app.train.photos import pack
from app.train.schedule import hyper_row

STAGES = {  # stage -> beginnings of the names of its passes
    "project": ("project ", "sizes"),
    "sort": ("sort ",),
    "tiles": ("tile ",),
    "forward draw": ("begin forward", "draw "),
    "loss": ("loss ",),
    "backward draw": ("begin backward", "draw backward "),
    "project backward": ("project backward ",),
}
AXES = ("format", "state_format", "blending", "reduction", "hybrid_threshold", "ordering", "atomics", "block", "tile_backward", "tile_threshold")  # options that may be lists
GRADIENTS = ("means", "quats", "scales", "opacities", "sh")


@dataclass
class Row:
    """One variant: its options, milliseconds by stage, fragments of both draws, bytes by purpose, gradient error by parameter."""

    options: dict
    stages: dict[str, float]
    forward: float
    backward: float
    total: float
    visible: float
    fragments: dict[str, float]
    memory: dict[str, int]
    sort_share: float | None
    errors: dict[str, float]


def stage_of(name: str) -> str:
    """The stage of a pass: the one with the longest matching beginning."""
    best = max(((len(b), s) for s, begins in STAGES.items() for b in begins if f"{name} ".startswith(b)), default=(0, "other"))
    return best[1]


def views_of(scene: Scene, chosen: list[int]) -> list[int]:
    """Indices into the sorted photographs: those asked for, or 8 evenly spaced from the first on."""
    n = len(scene.views)
    if bad := [i for i in chosen if not 0 <= i < n]:
        raise UserError(f"--views {bad[0]}: the scene has {n} views, 0 to {n - 1}")
    return chosen or [i * max(n // 8, 1) for i in range(min(8, n))]


class Bench:
    """One model and some views of its scene on one device."""

    def __init__(self, device: Device, gaussians: Gaussians, scene: Scene, views: list[int], upstream: str, repeats: int):
        self.device, self.gaussians, self.upstream, self.repeats = device, gaussians, upstream, repeats
        self.views = [scene.views[i] for i in views]
        self.photos = [v.load() for v in self.views] if upstream == "loss" else [None] * len(self.views)
        self.width, self.height = max(v.camera.width for v in self.views), max(v.camera.height for v in self.views)
        self.frame = frame_row(gaussians.sh_degree, (1.0, 1.0, 1.0), 0.2)
        self.frame["bias1"] = self.frame["bias2"] = 1.0
        self._references: dict[str, dict] = {}

    def measure(self, rasterizer: str, options: dict) -> Row:
        backend = BACKENDS[rasterizer]
        parameters = Parameters(self.device, len(self.gaussians), self.gaussians.sh.shape[1], extra=(*MOMENTS, "grow_stats"))
        parameters.upload(self.gaussians)
        for name in (*MOMENTS, "grow_stats"):
            parameters.resources[name].fill(0)
        raster = backend.rasterizer(self.device, parameters, self.width, self.height, backend.options(**options), sink="adam")
        own = {n: Buffer(self.device, contract.itemsize(n), n) for n in ("hyper", "history")}
        own["history"] = Buffer(self.device, contract.CONSTANTS["HISTORY"][0] * contract.itemsize("history"), "history")
        own["photos"] = Buffer(self.device, self.width * self.height * 4, "photos")
        own |= allocate_loss(self.device, self.width, self.height)
        hyper = hyper_row(TrainConfig(), 1.0)
        for name in contract.dtype("Hyper").names:
            if name.startswith("lr_"):
                hyper[name] = 0
        own["hyper"].upload(hyper)
        resources = {**raster.resources, **own}
        run = build_all(self.device, LOSS_PASSES)

        def record(**how) -> Recorder:
            recorder = Recorder(self.device, resources, **how)
            raster.record_forward(recorder)
            if self.upstream == "loss":
                record_loss(recorder, run, self.width, self.height)
            raster.record_backward(recorder)
            return recorder.end()

        timed, counted = record(timed=True), record(counted=True)
        rng = np.random.default_rng(0)
        stages, fragments, visible = [], [], []
        for view, photo in zip(self.views, self.photos):
            resources["camera"].upload(camera_row(view.camera))
            resources["frame"].upload(self.frame)
            if photo is not None:
                resources["photos"].upload(pack(photo))
            else:
                resources["d_image"].upload(rng.random((self.height, self.width, 4), np.float32))
            timed.run_once()
            if raster.make_room():
                timed.destroy()
                counted.destroy()
                resources |= raster.resources
                timed, counted = record(timed=True), record(counted=True)
            times = []
            for _ in range(self.repeats + 1):
                timed.run_once()
                times.append(timed.times())
            stages.append({n: float(np.median([t[n] for t in times[1:]])) for n in times[0]})
            counted.run_once()
            fragments.append(counted.fragments())
            visible.append(int(parameters.counts["visible"]))
        by_stage = dict.fromkeys(STAGES, 0.0)
        for view_stages in stages:
            for name, ms in view_stages.items():
                by_stage[stage_of(name)] = by_stage.get(stage_of(name), 0.0) + ms / len(stages)
        memory = {n: r.nbytes for n, r in {**resources, **parameters.all}.items()}
        for part in (timed, counted, raster, parameters, *own.values()):
            part.destroy()
        forward = by_stage["project"] + by_stage["sort"] + by_stage["tiles"] + by_stage["forward draw"]
        backward = by_stage["backward draw"] + by_stage["project backward"]
        return Row(
            {"rasterizer": rasterizer, **options},
            by_stage,
            forward,
            backward,
            forward + backward,
            float(np.mean(visible)),
            {n: float(np.mean([f[n] for f in fragments])) for n in (fragments[0] if fragments else {})},
            memory,
            None,
            {},
        )

    def gradients(self, rasterizer: str, options: dict) -> dict:
        """Gradients of the first view for random upstream gradients."""
        camera = self.views[0].camera
        renderer = Renderer(self.device, rasterizer, **options)
        renderer.forward(self.gaussians, camera, background=(1, 1, 1), near=0.2)
        out = renderer.backward(np.random.default_rng(0).random((camera.height, camera.width, 3), np.float32))
        renderer.close()
        return out

    def errors(self, rasterizer: str, options: dict) -> dict[str, float]:
        """Relative L2 of each gradient of the first view against the rasterizer's most accurate: float32 target and state, or one atomic a pixel."""
        if rasterizer not in self._references:
            exact = {"format": "float32", "state_format": "same", "tile_backward": "atomic"}
            self._references[rasterizer] = self.gradients(rasterizer, options | of_rasterizer(rasterizer, exact))
        reference, actual = self._references[rasterizer], self.gradients(rasterizer, options)
        return {n: float(np.linalg.norm(actual[n] - reference[n]) / np.linalg.norm(reference[n])) for n in GRADIENTS}


def variants(axes: dict[str, list]) -> Iterator[dict]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values))


def of_rasterizer(name: str, options: dict) -> dict:
    """Those of the options that a rasterizer has."""
    known = {f.name for f in fields(BACKENDS[name].options)}
    return {n: v for n, v in options.items() if n in known}


def bench(
    model: str,
    data_dir: str,
    result_dir: str | None = None,
    device: str | None = None,
    rasterizer: list[str] = ("hardware",),
    views: list[int] = (),
    upstream: str = "random",
    repeats: int = 5,
    errors: bool = False,
    quiet: bool = False,
    **axes: list,
) -> list[Row]:
    """Measures every combination of `axes` (see AXES), prints a Markdown table and writes bench.json and bench.md into result_dir."""
    gpu = open_device(device)
    gaussians = load_splats(model)
    scene = load_scene(data_dir)
    chosen = views_of(scene, list(views))
    job = Bench(gpu, gaussians, scene, chosen, upstream, repeats)
    rows, combinations = [], []
    for name, options in itertools.product(rasterizer, variants(axes)):
        if (combination := (name, of_rasterizer(name, options))) not in combinations:
            combinations.append(combination)
    for name, options in tqdm(combinations, desc="bench", unit="variant", disable=quiet):
        try:
            row = job.measure(name, options)
            row.errors = job.errors(name, options) if errors else {}
            rows.append(row)
        except UserError as error:
            tqdm.write(f"skipped {name} {options}: {error}")
    if not rows:
        raise UserError(f"{gpu.name} can run none of the variants asked for; see hardsplat doctor")
    about = f"{gpu.name}, {gpu.physical.driver}; {Path(model).name}: {len(gaussians)} splats, {job.width}x{job.height}, views {chosen}, upstream {upstream}, {repeats} repeats"
    text = markdown(rows, about)
    print(text)
    if result_dir:
        folder = Path(result_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bench.md").write_text(text + "\n")
        (folder / "bench.json").write_text(json.dumps({"about": about, "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
    return rows


def markdown(rows: list[Row], about: str) -> str:
    """A table of the rows; options that are the same in all of them stand above it."""
    names = list(dict.fromkeys(n for r in rows for n in r.options))
    varying = [n for n in names if len({str(r.options.get(n)) for r in rows}) > 1]
    fixed = ", ".join(f"{n} {rows[0].options[n]}" for n in names if n not in varying)
    head = [*varying, "forward", "backward", "total", *STAGES, "fragments [M]"]
    if rows[0].errors:
        head += [f"error {n}" for n in GRADIENTS]
    lines = [about, f"Milliseconds; {fixed}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for r in rows:
        cells = [str(r.options.get(n, "-")) for n in varying]
        cells += [f"{ms:.2f}" for ms in (r.forward, r.backward, r.total, *(r.stages[s] for s in STAGES))]
        cells.append(" + ".join(f"{n / 1e6:.1f}" for n in r.fragments.values()) or "-")
        cells += [f"{r.errors[n]:.1e}" for n in r.errors]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
