"""Trains what README's table of figures shows, as a user types it, and prints the table.

    python -m tools.headline --data DATA --out OUT [--seeds 42 1 2] [--commit NAME] [--readme]

DATA has a folder for each scene. Every run is a process of its own, `hardsplat train DATA/SCENE`
with the flags of its row, in a folder of OUT for the commit; complete runs are not made again. A
row is the mean of all complete runs of its kind there, whatever seeds are named, with the outer
two. PSNR is that of the standard properties of splats.ply. Memory is the largest count of the
driver, or of hardsplat where the driver has none. `--seeds` without a number trains nothing; rows
without a run are left out. --readme: the table replaces that in README.md, too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from hardsplat.io.scenes.scene import load_scene
from hardsplat.results.metrics import last_evaluation
from hardsplat.settings.presets import load_config

README = Path(__file__).parents[1] / "README.md"
TABLE = re.compile(r"(<!-- headline -->\n).*?(<!-- end -->)", re.DOTALL)
TITLES = ("scene", "trainer", "PSNR of held-out views", "training", "in all", "memory")


@dataclass(frozen=True)
class Row:
    """scene: a folder of the data. flags: of the command."""

    scene: str
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "_".join([self.scene, *(flag.strip("-") for flag in self.flags)])

    def make(self, data: Path, out: Path, seed: int) -> None:
        """Trains with a seed, unless a complete run of `out` did."""
        folder = out / f"{self.name}_{seed}"
        if complete(folder) is None:
            command = [sys.executable, "-m", "hardsplat", "train", str(data / self.scene)]
            command += [*self.flags, "--seed", str(seed), "--result-dir", str(folder), "--quiet"]
            subprocess.run(command, check=True)

    def runs(self, out: Path) -> list[dict]:
        """What metrics.json of all complete runs of its kind holds."""
        own = re.compile(re.escape(self.name) + r"_\d+")
        each = (complete(f) for f in sorted(out.iterdir()) if own.fullmatch(f.name))
        return [metrics for metrics in each if metrics]


ROWS = (Row("bonsai"), Row("bonsai", ("--config", "fast")), Row("lego", ("--background", "white")))


def complete(folder: Path) -> dict | None:
    """What metrics.json of a run holds that made all its steps."""
    if not (path := folder / "metrics.json").is_file():
        return None
    metrics = json.loads(path.read_text(encoding="utf-8"))
    return metrics | {"folder": folder} if metrics["steps"] == metrics["wanted"] else None


def photographs(folder: Path) -> str:
    """`800x533 JPEG, 255 photographs, 37 held out`, by the settings that a run saved."""
    c = load_config(folder / "config.toml").scene
    assert c.data_dir is not None
    scene = load_scene(c.data_dir, undistort=c.undistort, **c.reading)
    cameras = [view.camera for view in scene.views]
    (size, _), *others = Counter((c.width, c.height) for c in cameras).most_common()
    kind = scene.views[0].path.suffix.lower().removeprefix(".").replace("jpg", "jpeg").upper()
    shape = f"{'about ' * bool(others)}{size[0]}x{size[1]} {kind}"
    return f"{shape}, {len(scene.train)} photographs, {len(scene.test)} held out"


def spread(values: Sequence[float], digits: int, unit: str) -> str:
    """The mean of values, and the outer two where there are several."""
    mean = f"{sum(values) / len(values):.{digits}f} {unit}"
    outer = f", {min(values):.{digits}f} to {max(values):.{digits}f}"
    return mean + outer * (len(values) > 1)


def cells(row: Row, runs: Sequence[dict]) -> tuple[str, ...]:
    """What the table says of a row."""
    last = [found["psnr"] for run in runs if (found := last_evaluation(run))]
    training = [run["seconds"]["training"] for run in runs]
    whole = [run["seconds"]["parts"]["total"] for run in runs]
    counts = [run["memory_peak"] for run in runs]
    kind = "driver" if all(count["driver"] for count in counts) else "allocated"
    memory = f"{max(count[kind] for count in counts) / 2**20:.0f} MiB"
    memory += " allocated" * (kind == "allocated")
    steps = sorted({run["steps"] for run in runs})
    made = f"{steps[0]} to {steps[-1]}" if steps[1:] else str(steps[0])
    trainer = " ".join(["hardsplat", *row.flags]) + f", {made} steps, "
    trainer += "one run" if len(runs) == 1 else f"{len(runs)} runs"
    quality, *seconds = spread(last, 2, "dB"), spread(training, 1, "s"), spread(whole, 1, "s")
    scene = f"{row.scene}, {photographs(runs[0]['folder'])}"
    return scene, trainer, quality, *seconds, memory


def table(rows: Sequence[Sequence[str]], caption: str) -> str:
    """Rows below TITLES, as Markdown, and what they were measured with."""
    lines = (f"| {' | '.join(line)} |" for line in (TITLES, ["---"] * len(TITLES), *rows))
    return "\n".join([*lines, "", f"*{caption}*", ""])


def caption_of(runs: Sequence[dict], commit: str) -> str:
    """Devices, drivers, commit and days of runs."""
    devices = sorted({f"{r['device']['name']}, driver {r['device']['driver']}" for r in runs})
    ends = sorted((run["folder"] / "metrics.json").stat().st_mtime for run in runs)
    first, last = (date.fromtimestamp(ends[i]).isoformat() for i in (0, -1))
    days = first if first == last else f"{first} to {last}"
    return f"{'; '.join(devices)}; commit {commit}, {days}; `python -m tools.headline`"


def commit_here() -> str:
    """The commit of this tree, with `-dirty` where files differ from it."""
    words = ["git", "-C", str(README.parent), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.headline", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=[42, 1, 2])
    parser.add_argument("--commit", help="its name, where there is no repository")
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args(words)
    commit = given.commit or commit_here()
    out, found, made = given.out / commit, [], []
    for row in ROWS:
        for seed in given.seeds:
            row.make(given.data, out, seed)
        if runs := row.runs(out):
            made += runs
            found.append(cells(row, runs))
    print(text := table(found, caption_of(made, commit)))
    if given.readme:
        readme = README.read_text(encoding="utf-8")
        README.write_text(TABLE.sub(lambda old: old[1] + text + old[2], readme), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
