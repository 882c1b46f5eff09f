"""`hardsplat train` with every choice of every flag, and with every pair of two choices."""

import json
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from hardsplat.io.splats import load_splats
from hardsplat.study.doctor import REGISTRIES
from tests.helpers.offered import Item, cover, offered

STEPS = 8
# they go on from a run, find poses, or leave a run to itself; see test_commands.py
APART = ("--resume", "--sfm")


def finite_run(folder: Path, row: list[Item]) -> None:
    """A run in a folder has done its steps, with finite numbers, by the variants that it names."""
    metrics = json.loads((folder / "metrics.json").read_text())
    numbers = [metrics["evaluations"][-1][name] for name in ("psnr", "ssim")]
    numbers += metrics["curve"]["loss"]
    assert metrics["steps"] == STEPS and np.isfinite(numbers).all(), row
    splats = load_splats(folder / "splats.ply")
    values = splats.means, splats.quats, splats.scales, splats.opacities, splats.sh
    assert len(splats) and all(np.isfinite(each).all() for each in values), row
    named = {item[0].removeprefix("--").replace("-", "_"): item[1] for item in row if item[1:]}
    for name, taken in metrics["variants"].items():
        assert named.get(name, "auto") in ("auto", "same", str(taken)), (name, taken, row)


def tabled(flags: dict[str, list[Item]]) -> list[str]:
    """Those flags that choose rows of the tables of variants, which may go together or not."""
    rows = {flag for _, flag, _ in REGISTRIES} | {"--rasterizer", "--state-format", "--strategy"}
    return [flag for flag in flags if flag in rows]


@pytest.fixture
def run(start, small, without_reports):
    """run(row) trains with these flags; see cover."""
    numbers = count()

    def run(row: list[Item]) -> str | None:
        folder = Path(f"run{next(numbers)}")
        how = ("--max-steps", STEPS, "--result-dir", folder)
        if (why := start("train", small, *how, row=row)) is None:
            finite_run(folder, row)
        return why

    return run


def test_every_choice(run):
    flags = {name: items for name, items in offered("train").items() if name not in APART}
    print(sorted(map(sorted, cover(flags, run, tabled(flags)))))


def test_every_pair_of_choices(run, everything):
    flags = {name: items for name, items in offered("train").items() if name not in APART}
    cover(flags, run, flags)
