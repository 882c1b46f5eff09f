"""Trains all runs of a plan, and tabulates and plots their results.

    python -m tools.suite train PLAN --data FOLDER --out RESULTS [--lane K] [--queue FOLDER]
                                [--minutes M] [--factor N] [--steps N]
    python -m tools.suite table PLAN --out RESULTS [--against PRESET] [--decisions]
    python -m tools.suite plot PLAN --out RESULTS [--images FOLDER]

`train` may run several times on one folder of results, at once on several devices
(HARDSPLAT_DEVICE; each with its own --lane) or later again: runs that have a result are left out.
`table` writes table.md and table.csv there and prints the first; `plot` draws quality_seconds.png
and quality_splats.png.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hardsplat.base.errors import UserError
from tools.suite.plan import Plan, read_plan
from tools.suite.table import decisions, markdown, matrix, rows, write_csv


def _of(plan: Plan, results: list[dict]) -> list[dict]:
    """Results of runs that the plan has, in its order."""
    by = {r["key"]: r for r in results if "error" not in r}
    return [by[run.key] for run in plan.runs if run.key in by]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    table = commands.add_parser("table")
    plot = commands.add_parser("plot")
    for each in (training, table, plot):
        each.add_argument("plan", type=Path)
        each.add_argument("--out", type=Path, required=True, help="folder of the results")
    training.add_argument("--data", type=Path, required=True, help="folder of the scenes' folders")
    training.add_argument(
        "--lane",
        type=int,
        default=0,
        help="number of this process among those that share the folder of results",
    )
    training.add_argument(
        "--queue",
        type=Path,
        help="folder that all processes share that take runs from one plan (default: queue in "
        "the folder of results)",
    )
    training.add_argument(
        "--minutes", type=float, default=float("inf"), help="no run begins later than that"
    )
    training.add_argument(
        "--factor", type=int, default=1, help="photographs are so many times smaller"
    )
    training.add_argument(
        "--steps",
        type=int,
        default=0,
        help="each run stops after so many: a trial of the plan, with results of its own",
    )
    table.add_argument(
        "--decisions", action="store_true", help="print what the runs of the first seed decided"
    )
    table.add_argument("--against", help="print differences from this preset, too")
    plot.add_argument(
        "--images", type=Path, help="folder of the pictures (default: the folder of results)"
    )
    given = parser.parse_args(words)
    try:
        plan = read_plan(given.plan)
        from tools.suite import lane

        if given.command == "train":
            given.out.mkdir(parents=True, exist_ok=True)
            lane.work(
                plan,
                given.data,
                given.out,
                given.queue or given.out / "queue",
                given.lane,
                given.minutes,
                given.factor,
                given.steps,
            )
            return 0
        results = _of(plan, lane.results(given.out))
        found = rows(results, plan.targets)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not found:
        print(f"error: {given.out}: no results yet; train first", file=sys.stderr)
        return 1
    if given.command == "plot":
        from tools.suite.plots import against_splats, over_seconds

        folder = given.images or given.out
        over_seconds(results, plan.anchors, folder / "quality_seconds.png")
        against_splats(found, folder / "quality_splats.png")
        return 0
    write_csv(found, given.out / "table.csv")
    (given.out / "table.md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))
    print(matrix(found, given.against))
    if given.decisions:
        print(decisions(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
