"""python -m tools.suite train PLAN --data FOLDER --out RESULTS [--lane K] [--queue FOLDER] [--minutes M]
python -m tools.suite table PLAN --out RESULTS [--against PRESET]

`train` may run several times on one folder of results, at once on several devices (HARDSPLAT_DEVICE; each with its own --lane) or later again: runs that have a
result are left out. `table` writes table.md and table.csv there and prints the first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hardsplat.errors import UserError
from tools.suite.plan import read_plan
from tools.suite.table import markdown, matrix, rows, write_csv


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training, table = commands.add_parser("train"), commands.add_parser("table")
    for each in (training, table):
        each.add_argument("plan", type=Path)
        each.add_argument("--out", type=Path, required=True, help="folder of the results")
    training.add_argument("--data", type=Path, required=True, help="folder of the scenes' folders")
    training.add_argument("--lane", type=int, default=0, help="number of this process among those that share the folder of results")
    training.add_argument("--queue", type=Path, help="folder that all processes share that take runs from one plan (default: queue in the folder of results)")
    training.add_argument("--minutes", type=float, default=float("inf"), help="no run begins later than that")
    table.add_argument("--against", help="print differences from this preset, too")
    given = parser.parse_args(words)
    try:
        plan = read_plan(given.plan)
        from tools.suite import lane

        if given.command == "train":
            given.out.mkdir(parents=True, exist_ok=True)
            lane.work(plan, given.data, given.out, given.queue or given.out / "queue", given.lane, given.minutes)
            return 0
        found = rows(lane.results(given.out), plan.targets)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not found:
        print(f"error: {given.out}: no results yet; train first", file=sys.stderr)
        return 1
    write_csv(found, given.out / "table.csv")
    (given.out / "table.md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))
    print(matrix(found, given.against))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
