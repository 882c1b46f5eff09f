"""Every command but `train` with every choice of every flag, and what it writes read back."""

import json
from itertools import count
from pathlib import Path

import pytest

from hardsplat.cli import COMMANDS
from tests.helpers.offered import Item, cover, offered
from tests.usage.cases import CASES, STEPS, cover_choices, swept

# test_train.py, whose flags `sweep` has; test_processes.py (`view`), tests/study (`doctor`), and
# test_every_choice_of_poses
APART = {"train", "sweep", "view", "sfm", "doctor"}


def test_every_command_is_here():
    assert CASES.keys() | APART == COMMANDS.keys() and not CASES.keys() & APART


@pytest.mark.parametrize("command", CASES)
def test_every_choice(start, given, command, in_small):
    cover_choices(command, start, given)


def test_all_of_an_axis(start, small, in_small):
    how = ("--max-steps", STEPS, "--strategy", "all", "--result-dir", "all")
    assert start("sweep", small, *how) is None
    swept(Path("all"))
    records = [json.loads((folder / "run.json").read_text()) for folder in in_small]
    choices = {item[1] for item in offered("sweep")["strategy"]}
    assert {record["settings"]["strategy"] for record in records} == choices


def test_every_choice_of_poses(start, small, tmp_path):
    """The photographs are too small for poses, which is what every choice comes to."""
    without = start("sfm", small / "images", "--out", "small")
    assert without and "no poses found" in without
    numbers = count()

    def run(row: list[Item]) -> str | None:
        own = f"small{next(numbers)}"
        why = start("sfm", small / "images", "--out", own, row=row)
        return None if why and why.replace(own, "small") == without else why

    cover(offered("sfm"), run)
