"""Trains what README's table of figures shows, as a user types it, and prints the table.

    python -m tools.headline --data DATA --out OUT [--seeds 42 1 2] [--readme]

DATA has a folder for each scene. Every run is a process of its own, `hardsplat train DATA/SCENE`
with the flags of its row; runs that are complete in OUT are not made again. PSNR is that of the
standard properties of splats.ply, memory the driver's largest count. A row is the mean of its runs,
with the outer two. --readme: the table replaces that in README.md, too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
TABLE = re.compile(r"(<!-- headline -->\n).*?(<!-- end -->)", re.DOTALL)
TITLES = ("scene", "trainer", "PSNR of held-out views", "training", "in all", "memory")


@dataclass(frozen=True)
class Row:
    """scene: a folder of the data. size: of its photographs, in words. flags: of the command."""

    scene: str
    size: str
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "_".join([self.scene, *(flag.strip("-") for flag in self.flags)])

    def runs(self, data: Path, out: Path, seeds: Sequence[int]) -> list[dict]:
        """What metrics.json of its runs holds. Runs that OUT lacks are made."""
        return [self._run(data, out / f"{self.name}_{seed}", seed) for seed in seeds]

    def _run(self, data: Path, folder: Path, seed: int) -> dict:
        if not (folder / "metrics.json").is_file():
            command = [sys.executable, "-m", "hardsplat", "train", str(data / self.scene)]
            command += [*self.flags, "--seed", str(seed), "--result-dir", str(folder), "--quiet"]
            subprocess.run(command, check=True)
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


ROWS = (
    Row("bonsai", "800x533 JPEG, 255 photographs"),
    Row("bonsai", "800x533 JPEG, 255 photographs", ("--config", "fast")),
    Row("lego", "800x800, 100 photographs", ("--background", "white")),
)


def spread(values: Sequence[float], digits: int, unit: str) -> str:
    """The mean of values, and the outer two where there are several."""
    mean = f"{sum(values) / len(values):.{digits}f} {unit}"
    if len(values) == 1:
        return f"{mean} (one run)"
    return f"{mean}, {min(values):.{digits}f} to {max(values):.{digits}f}"


def cells(row: Row, runs: Sequence[dict]) -> tuple[str, ...]:
    """What the table says of a row."""
    last = [run["evaluations"][-1]["psnr"] for run in runs]
    training = [run["seconds"]["training"] for run in runs]
    whole = [run["seconds"]["parts"]["total"] for run in runs]
    counted = [run["memory_peak"]["driver"] for run in runs]
    memory = f"{max(counted) / 2**20:.0f} MiB" if all(counted) else "not counted"
    trainer = " ".join(["hardsplat", *row.flags]) + f", {runs[0]['steps']} steps"
    quality, *seconds = spread(last, 2, "dB"), spread(training, 1, "s"), spread(whole, 1, "s")
    return f"{row.scene}, {row.size}", trainer, quality, *seconds, memory


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows below TITLES, as Markdown."""
    lines = [TITLES, ["---"] * len(TITLES), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.headline", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 1, 2])
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args(words)
    found = [cells(row, row.runs(given.data, given.out, given.seeds)) for row in ROWS]
    print(made := table(found))
    if given.readme:
        text = README.read_text(encoding="utf-8")
        README.write_text(TABLE.sub(rf"\g<1>{made}\g<2>", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
