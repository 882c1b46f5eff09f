"""Times the training step of several checkouts against each other.

    python -m tools.step_bench SCENE MODEL NAME=FOLDER... [--steps N] [--rounds N] [-- FLAG...]

Each checkout trains the splats of MODEL on SCENE with the tiled rasterizer, none added or removed,
one after the other and in the other direction in the next round: what the machine does in a round
it does to all. FLAG: further flags of `hardsplat train`. A process a training, HARDSPLAT_DEVICE as
ever. A step is timed without timestamps between its passes, so that passes may overlap: the seconds
of training behind the first tenth of the steps, over the steps. Stages come from single steps with
timestamps, which keep passes apart.

Prints a table: of steps and PSNR the median over rounds, of differences from the first checkout
the median over rounds of what a round measured, each with the least and the most.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

Rounds = Mapping[str, Sequence[Mapping]]  # by checkout, what measured() returns


def measured(metrics: Mapping) -> dict:
    """step: ms; psnr: dB; stages: ms by pass; from metrics.json of a training with two evaluations
    or more."""
    first, last = metrics["evaluations"][0], metrics["evaluations"][-1]
    seconds = last["training_seconds"] - first["training_seconds"]
    step = 1e3 * seconds / (last["step"] - first["step"])
    return {"step": step, "psnr": last["psnr"], "stages": metrics["stage_ms"]}


def train(tree: Path, scene: Path, model: Path, steps: int, flags: Sequence[str]) -> dict:
    """measured() of one training by a checkout. Raises SystemExit with its last line."""
    path = os.pathsep.join(filter(None, [str(tree / "app"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "HARDSPLAT_AUTO": "first"}
    with tempfile.TemporaryDirectory(prefix="step_bench_") as folder:
        given = {"init": model, "max-steps": steps, "strategy": "none", "rasterizer": "tiled"}
        given |= {"eval-steps": max(steps // 10, 1), "result-dir": folder}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "hardsplat", "train", str(scene), *words, "--quiet"]
        done = subprocess.run(
            [*command, *flags], env=environment, cwd=tree, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{tree}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
        return measured(json.loads((Path(folder) / "metrics.json").read_text(encoding="utf-8")))


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and the least and the most of several."""
    middle, *ends = (f"{f(values):.{digits}f}" for f in (np.median, min, max))
    return f"{middle} ({' to '.join(ends)})" if len(values) > 1 else middle


def table(rounds: Rounds) -> str:
    """Markdown; the first checkout is what others are compared with."""
    names, first = list(rounds), next(iter(rounds.values()))
    steps = {name: [r["step"] for r in results] for name, results in rounds.items()}
    more = {n: [a - b for a, b in zip(steps[n], steps[names[0]])] for n in names[1:]}
    lines = [["", *names], ["---"] * (len(names) + 1)]
    lines.append(["step, ms", *(spread(steps[n], 3) for n in names)])
    differences = [spread([1e3 * d for d in each], 0) for each in more.values()]
    lines.append(["against the first, us", "", *differences])
    lines.append(["PSNR, dB", *(spread([r["psnr"] for r in rounds[n]], 2) for n in names)])
    passes = dict.fromkeys(p for results in rounds.values() for p in results[0]["stages"])
    for each in passes:
        found = ([r["stages"][each] for r in rounds[n] if each in r["stages"]] for n in names)
        lines.append([f"{each}, us", *(f"{1e3 * np.median(f):.1f}" if f else "" for f in found)])
    title = f"{len(first)} rounds: median (least to most); passes: median\n\n"
    return title + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(words: list[str]) -> None:
    """See above."""
    at = words.index("--") if "--" in words else len(words)
    words, flags = words[:at], words[at + 1 :]
    parser = argparse.ArgumentParser(
        prog="python -m tools.step_bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scene", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("trees", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args(words)
    named = (each.partition("=") for each in given.trees)
    trees = {name: Path(folder).resolve() for name, _, folder in named}
    if bad := [name for name, tree in trees.items() if not (tree / "app" / "hardsplat").is_dir()]:
        parser.error(f"{bad[0]}: {trees[bad[0]]} is no checkout of hardsplat; NAME=FOLDER")
    results: dict[str, list[dict]] = {name: [] for name in trees}
    for turn in range(given.rounds):
        for name in list(trees)[:: -1 if turn % 2 else 1]:
            where = given.scene.resolve(), given.model.resolve()
            results[name].append(found := train(trees[name], *where, given.steps, flags))
            print(f"round {turn + 1}, {name}: {found['step']:.3f} ms", file=sys.stderr, flush=True)
    print(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
