"""A lane: one process on one device that takes runs of a plan, one after the other, until none is
left.

Several lanes share a queue, a folder with a file for each run: it is locked while the run is made,
and says so when it is done. What came of a run is one line of the lane's `results_K.jsonl`.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO
from unittest.mock import patch

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.scenes.views import View, load_images
from hardsplat.train import HeldOut, Keeper, PhotographLoader, Running, ScenePart, Trainer, Watcher
from tools.suite.plan import Plan, Run

MEASURED = ("step", "psnr", "ssim", "fitted_psnr", "fitted_ssim", "splats", "training_seconds")


@dataclass(frozen=True)
class Loaded(View):
    """A photograph in memory as View.load left it, which is premultiplied."""

    image: np.ndarray = field(kw_only=True, repr=False)

    def load(self) -> np.ndarray:
        return self.image


class Fitted(HeldOut):
    """Held-out views are measured after a fit of colours as well, whatever the run trains."""

    def _measures(self, views, quiet=True, **how):
        fitted = how.get("fitted") or "colors" in how
        return super()._measures(views, quiet, **how | {"fitted": fitted})


class Nothing(Keeper):
    """Keeps no files and no copies."""

    def keep(self) -> None:
        pass


class Ending(Watcher):
    """Ends a run after so many steps, 0 for none."""

    def __init__(self, steps: int):
        self.steps = steps

    def turn(self, run: Running, wait: bool = False) -> None:
        if 0 < self.steps <= run.session.step:
            run.stop()


class Measuring(Trainer):
    """A training that leaves its numbers alone: no splats, checkpoints or pictures."""

    def prepare_folder(self) -> None:
        own = self.session, self.files, self.log
        self.keeper = Nothing(*own, self.keeper.state)
        self.held_out = Fitted(*own, self.watchers, self.stopping)

    def write_last(self) -> None:
        self.held_out.measure()

    def write_results(self) -> dict:
        metrics = self.metrics()
        metrics["seconds"] |= {"parts": self.clock.read(), "files": {}}
        return metrics


def work(
    plan: Plan,
    data: Path,
    out: Path,
    queue: Path,
    lane: int,
    minutes: float,
    factor: int = 1,
    steps: int = 0,
) -> int:
    """Takes runs until none is left or so many minutes have passed; a run that has begun is ended.
    factor: photographs are so many times smaller. steps: after which each run stops, 0 for none.
    Returns how many it made."""
    begun, device, made, scenes = time.monotonic(), open_device(None), 0, {}
    for run, claim in _claimed(plan.runs, out, queue):
        if time.monotonic() - begun > 60 * minutes:
            break
        folder = data / plan.folders[run.scene]
        if run.scene not in scenes:
            every, altered = plan.every[run.scene], run.scene in plan.altered
            scenes[run.scene] = loaded(folder, every, altered, factor)
        result = train(run, device, scenes[run.scene], folder, steps)
        with open(out / f"results_{lane}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        if "error" not in result:
            claim.write("done")
        made += 1
        print(
            f"lane {lane}, {time.monotonic() - begun:.0f} s: {run.key} "
            f"{result.get('psnr', result.get('error'))}",
            flush=True,
        )
    return made


def loaded(folder: Path, every: int = 1, altered: bool = False, factor: int = 1) -> Scene:
    """The scene with all photographs in memory. every: training photographs from one that is taken
    to the next. altered: photographs get other light. factor: they are so many times smaller."""
    scene = load_scene(folder, factor)
    scene = in_memory(replace(scene, train=scene.train[::every]))
    if altered:
        rng = np.random.default_rng(0)
        views = [replace(view, image=in_other_light(view.load(), rng)) for view in scene.views]
        scene = replace(scene, views=views)
    return scene


def in_other_light(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An image as another camera took it on another day: gain (30 %), white balance (10 %) and
    contrast (20 %) are drawn."""
    gains = rng.uniform(0.7, 1.3) * rng.uniform(0.9, 1.1, 3)
    table = gains * (np.arange(256)[:, None] / 255) ** rng.uniform(0.8, 1.2)
    table = np.clip(np.round(255 * table), 0, 255).astype(np.uint8)
    colors = [table[image[..., k], k] for k in range(3)]
    return np.stack([*colors, *np.moveaxis(image[..., 3:], -1, 0)], axis=-1)


def in_memory(scene: Scene) -> Scene:
    """The same scene, with all photographs in memory."""
    images = load_images(scene.views, progress=False)
    return replace(
        scene,
        views=[
            Loaded(v.name, v.camera, v.path, number=v.number, image=image)
            for v, image in zip(scene.views, images)
        ],
    )


def train(run: Run, device: Device, scene: Scene, folder: Path, steps: int = 0) -> dict:
    """The numbers of one run, or its error. steps: after which it stops, 0 for none."""
    result = Path(tempfile.mkdtemp(prefix="suite_"))
    numbers = {
        "key": run.key,
        "preset": run.preset,
        "scene": run.scene,
        "seed": run.seed,
        "config": run.config,
        "overrides": run.overrides,
    }
    begun, notes = time.perf_counter(), list[str]()
    try:
        with patch.object(tqdm, "write", notes.append):  # what the run decides, and why
            config = run.settings(folder, result)
            own = [Ending(steps)], device, PhotographLoader(scene)
            with Measuring(config, *own, part=ScenePart()) as training:  # without a report
                metrics = training.train()
    except UserError as error:
        return numbers | {"error": str(error)}
    except Exception as error:  # whatever it is, the other runs go on
        traceback.print_exc()
        return numbers | {"error": f"{type(error).__name__}: {error}"}
    finally:
        shutil.rmtree(result, ignore_errors=True)
    evaluations = [{name: e[name] for name in MEASURED} for e in metrics["evaluations"]]
    last = evaluations[-1]
    return numbers | {
        "device": device.name,
        "psnr": last["psnr"],
        "ssim": last["ssim"],
        "fitted_psnr": last["fitted_psnr"],
        "best": max(e["psnr"] for e in evaluations),
        "splats": metrics["splats"],
        "steps": metrics["steps"],
        "training_seconds": metrics["seconds"]["training"],
        "wall_seconds": time.perf_counter() - begun,
        "step_ms": metrics["step_ms"],
        "stage_ms": metrics["stage_ms"],
        "gpu_idle": metrics["gpu_idle"],
        "memory_bytes": sum(metrics["memory_bytes"].values()),
        "train_psnr": [
            float(
                np.mean(
                    [
                        p
                        for s, p in zip(metrics["curve"]["step"], metrics["curve"]["psnr"])
                        if e["step"] - 300 < s <= e["step"]
                    ]
                    or [0]
                )
            )
            for e in evaluations
        ],
        "validation": metrics["validation"],
        "decisions": metrics["decisions"],
        "notes": [line for line in notes if not line.startswith("step ")],
        "evaluations": evaluations,
    }


def done(out: Path) -> set[str]:
    """Keys of the runs that have a result."""
    return {line["key"] for line in results(out) if "error" not in line}


def results(out: Path) -> list[dict]:
    """All lines of results; one that was cut short is left out."""
    found = []
    for path in sorted(out.glob("results_*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def _claimed(runs: list[Run], out: Path, queue: Path) -> Iterator[tuple[Run, TextIO]]:
    """Runs that nobody has done or does, each with its file in the queue, which stays locked while
    the run is being made."""
    queue.mkdir(parents=True, exist_ok=True)
    for run in runs:
        with open(queue / run.key, "a+", encoding="utf-8") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            claim.seek(0)
            if not claim.read() and run.key not in done(out):
                yield run, claim
