"""`hardsplat train` with every choice of every flag, and with every pair of two choices."""

import json
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from hardsplat.raster.core.resolve import lacking
from hardsplat.study.variants import REGISTRIES, option_of
from tests.helpers.offered import Item, cover, offered
from tests.usage.cases import STEPS, splats
from tests.usage.conftest import DRIVERS

# they go on from a run (test_processes.py) or find poses (`hardsplat sfm`: test_commands.py)
APART = ("resume", "sfm")


def finite_run(folder: Path, row: list[Item]) -> None:
    """A run in a folder has done its steps, with finite numbers, by the variants that it names."""
    metrics = json.loads((folder / "metrics.json").read_text())
    numbers = [metrics["evaluations"][-1][name] for name in ("psnr", "ssim")]
    numbers += metrics["curve"]["loss"]
    assert metrics["steps"] == STEPS and np.isfinite(numbers).all(), row
    splats(folder / "splats.ply")
    named = {item[0].removeprefix("--").replace("-", "_"): item[1] for item in row if item[1:]}
    for name, taken in metrics["variants"].items():
        assert named.get(name, "auto") in ("auto", "same", str(taken)), (name, taken, row)


def tabled(flags: dict[str, list[Item]]) -> list[str]:
    """Those flags that choose rows of the tables of variants, which may go together or not."""
    rows = {option_of(flag or "") for _, flag, _ in REGISTRIES}
    return [name for name in flags if name in rows | {"rasterizer", "state_format", "strategy"}]


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


def flags_of_train() -> dict[str, list[Item]]:
    return {name: items for name, items in offered("train").items() if name not in APART}


@pytest.mark.parametrize("driver", DRIVERS, indirect=True, scope="module")
def test_every_choice(run, driver, opened):
    """With the tables' pairs. Of what is refused alone each lacks something."""
    flags = flags_of_train()
    refused = cover(flags, run, tabled(flags) if driver == "first" else ())
    lacks = {
        (flag, name)
        for _, flag, rows in REGISTRIES
        if flag and option_of(flag) in flags
        for name, row in rows.items()
        if lacking(opened, row, f"{option_of(flag)} {name}")
    }
    assert {item for row in refused if len(row) == 1 for item in row} <= lacks
    assert all(run([item]) for item in lacks)


def test_every_pair_of_choices(run, everything):
    flags = flags_of_train()
    cover(flags, run, flags)
