"""Trains many captures with changed constants or settings, in one process, and compares them.

    python -m tools.captures DATA castle bonsai/3 ... --name WHAT --out rows.jsonl
        [--seeds 42 1 2] [--constants GAIN=0.2 ...] [--set shN_lr=1.25e-4 ...] [--alter 1]
        [--device 0] [--share 1/2]
    python -m tools.captures --out rows.jsonl --against default

A capture is a folder of DATA, `/3` with every third of its training photographs. --constants: of
`train/job/validation.py`, or of another module of hardsplat as `train.strategies.budget:MOST`.
--alter: photographs differ in light, drawn with this seed: a gain of 30 %, white balance of 10 %,
contrast of 20 %. Every run adds a line to the file, and a line that is there is not made again.
--share 1/2: the first half of the runs, for one of two devices. Runs have the settings of
`hardsplat train`, the tiled rasterizer and no report. --against: prints what each name gains on
that one, in the mean of seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.scenes.views import View
from hardsplat.results.metrics import last_evaluation
from hardsplat.settings.presets import load_config
from hardsplat.train import PhotographLoader, ScenePart, run_training

OF_THE_DEFAULT = "train.job.validation"
OWN = {"lego": {"background": "white"}}  # settings of captures
KEPT = ("steps", "splats", "decisions", "validation", "memory_peak", "stage_ms")


@dataclass(frozen=True)
class Altered(View):
    """A photograph in other light. seed: of all of them."""

    seed: int = 0

    def load(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, zlib.crc32(self.name.encode())])
        gain, contrast, white = (np.exp(rng.normal(0, s)) for s in (0.3, 0.2, [0.1] * 3))
        image = super().load().copy()
        light = ((image[..., :3] / 255 - 0.5) * contrast + 0.5) * gain * white
        image[..., :3] = np.clip(np.rint(255 * light), 0, 255)
        return image


def altered(scene: Scene, seed: int) -> Scene:
    own = [{n: getattr(view, n) for n in View.__dataclass_fields__} for view in scene.views]
    return replace(scene, views=[Altered(**each, seed=seed) for each in own])


def pairs(words: Sequence[str]) -> dict[str, Any]:
    """`name=value` by name, values as in TOML."""
    named = (word.partition("=")[::2] for word in words)
    return {name: tomllib.loads(f"value = {value}")["value"] for name, value in named}


@contextmanager
def constants(values: dict[str, Any]) -> Iterator[None]:
    """Constants of modules are these within the block."""
    before = []
    for name, value in values.items():
        module, _, constant = name.rpartition(":")
        owner = import_module(f"hardsplat.{module or OF_THE_DEFAULT}")
        before.append((owner, constant, getattr(owner, constant)))
        setattr(owner, constant, value)
    try:
        yield
    finally:
        for each in before:
            setattr(*each)


def run(device: Any, data: Path, capture: str, seed: int, given: argparse.Namespace) -> dict:
    """Trains, and returns what is kept of it."""
    name, _, nth = capture.partition("/")
    with TemporaryDirectory() as folder:
        values = {"data_dir": data / name, "result_dir": Path(folder) / "run", "seed": seed}
        values |= {"rasterizer": "tiled", "quiet": True, **OWN.get(name, {}), **pairs(given.set)}
        config = load_config(values.pop("config", None), values)
        scene = load_scene(data / name, undistort=config.scene.undistort, **config.scene.reading)
        scene = replace(scene, train=scene.train[:: int(nth or 1)])
        scene = altered(scene, given.alter) if given.alter is not None else scene
        with constants(pairs(given.constants)):
            photographs = PhotographLoader(scene)
            part = ScenePart(reports=False)
            metrics = run_training(config, device=device, photographs=photographs, part=part)
    measured = last_evaluation(metrics) or {}
    shown = {n: measured.get(n) for n in ("psnr", "ssim", "fitted_psnr")}
    shown["views"] = [round(view["psnr"], 2) for view in measured.get("views", [])]
    return shown | {"training": metrics["seconds"]["training"]} | {n: metrics[n] for n in KEPT}


def rows_of(out: Path) -> list[dict]:
    return [json.loads(line) for line in open(out, encoding="utf-8")] if out.is_file() else []


def means(rows: Sequence[dict]) -> dict[str, dict[str, np.ndarray]]:
    """PSNR, SSIM and seconds of training by name and capture, means of seeds."""
    found: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["name"]][row["capture"]].append([row[n] for n in ("psnr", "ssim", "training")])
    return {name: {c: np.mean(v, axis=0) for c, v in own.items()} for name, own in found.items()}


def compare(rows: Sequence[dict], against: str) -> str:
    """By name, differences to another one: dB by capture, and means of dB, SSIM and seconds."""
    found, lines = means(rows), []
    base = found.pop(against)
    for name, captures in found.items():
        gains = {c: values - base[c] for c, values in captures.items() if c in base}
        db, ssim, seconds = np.mean([*gains.values()], axis=0)
        each = ", ".join(f"{c} {gain[0]:+.2f}" for c, gain in gains.items())
        lines.append(f"{name}: {db:+.3f} dB, SSIM {ssim:+.4f}, {seconds:+.1f} s; {each}")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.captures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("captures", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 1, 2])
    parser.add_argument("--constants", nargs="*", default=[])
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--alter", type=int)
    parser.add_argument("--device")
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--against")
    given = parser.parse_args(words)
    if given.against:
        print(compare(rows_of(given.out), given.against))
        return 0
    mine, of = map(int, given.share.split("/"))
    jobs = [(capture, seed) for seed in given.seeds for capture in given.captures]
    made = {(row["name"], row["capture"], row["seed"]) for row in rows_of(given.out)}
    with closing(open_device(given.device)) as device:
        for capture, seed in jobs[mine - 1 :: of]:
            if (given.name, capture, seed) in made:
                continue
            row = {"name": given.name, "capture": capture, "seed": seed}
            row |= run(device, given.data, capture, seed, given)
            with open(given.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(*(row[n] for n in ("name", "capture", "seed", "psnr", "steps")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
