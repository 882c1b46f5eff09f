"""What some tests need that is not on every machine, and the command that brings it."""

from collections import defaultdict

import pytest

SUITE, EVERYTHING = "bash tools/test", "bash tools/test --all"
SHARED = "HARDSPLAT_SHARED=FOLDER bash tools/test"  # docs/architecture/tests.md says what is in it
_RUN = "; run: "


def lacking(what: str, command: str = SUITE) -> str:
    """The reason of a skip."""
    return f"{what}{_RUN}{command}"


def module(name: str, command: str = SUITE):
    """The module of that name. Skips where it is not installed."""
    return pytest.importorskip(name, reason=lacking(f"no Python package {name}", command))


def by_command(reasons: list[str]) -> list[str]:
    """A line a command, with what it runs and how often; the last one has what no command runs."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for reason in reasons:
        what, _, command = reason.removeprefix("Skipped: ").partition(_RUN)
        counts[command][what] += 1
    return [
        f"{command or 'on another machine'}: {', '.join(f'{n} x {w}' for w, n in each.items())}"
        for command, each in sorted(counts.items(), reverse=True)
    ]
