"""Skipped tests are listed by the command that runs them."""

from tests.helpers.needs import EVERYTHING, SUITE, by_command, lacking


def test_a_line_a_command():
    reasons = [lacking("no b"), lacking("no a"), lacking("no b"), lacking("no c", EVERYTHING)]
    lines = by_command([*(f"Skipped: {reason}" for reason in reasons), "Skipped: lacks d"])
    assert lines == [
        f"{EVERYTHING}: 1 x no c",
        f"{SUITE}: 2 x no b, 1 x no a",
        "on another machine: 1 x lacks d",
    ]
