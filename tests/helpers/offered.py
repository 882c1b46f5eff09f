"""What the command line offers, read from its parsers, and few command lines that cover it."""

import argparse
import itertools
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from hardsplat.cli import parsers
from hardsplat.settings.train import FIELDS

Item = tuple[str, ...]  # a flag and its value, as words


def offered(command: str, **more: Iterable[str]) -> dict[str, list[Item]]:
    """What a command can be told, by name, with its flags. more: values of flags that list none."""
    _, commands = parsers()
    found: dict[str, list[Item]] = {}
    for action in commands[command]._actions:  # argparse has no public list of them
        name = (action.option_strings or [""])[-1]
        if isinstance(action, argparse._HelpAction) or "--help" in action.option_strings:
            continue
        if action.option_strings and action.nargs == 0:
            found.setdefault(action.dest, []).extend((word,) for word in action.option_strings)
        elif values := [*_choices(action), *more.get(action.dest, ())]:
            found.setdefault(action.dest, []).extend((name, value) for value in values)
    assert more.keys() <= found.keys()
    return found


def _choices(action: argparse.Action) -> Sequence[str]:
    if action.choices:
        return list(action.choices)
    if isinstance(action.metavar, str) and action.metavar.startswith("{"):
        return action.metavar[1:-1].split(",")
    axis = action.nargs == "+" and action.dest in FIELDS
    return FIELDS[action.dest].metadata["choices"] if axis else ()


Row = frozenset[Item]


def cover(
    flags: Mapping[str, Sequence[Item]],
    run: Callable[[list[Item]], str | None],
    paired: Iterable[str] = (),
) -> set[Row]:
    """Runs command lines until every item was in one that ended well, or is refused, and every pair
    of items of two `paired` flags too. Returns what is refused.

    run(items): None where that ended well, else the line that says why not; raises for
    all else. The flags that the line names must be refused without the others, or it does not say
    what is wrong. Raises one AssertionError at the end, of all that is wrong.
    """
    rng, wrong = random.Random(0), []
    goals = [frozenset([item]) for items in flags.values() for item in items]
    for some, others in itertools.combinations([flags[name] for name in paired], 2):
        goals += [frozenset(pair) for pair in itertools.product(some, others)]
    rng.shuffle(goals)
    open_goals, refused = dict.fromkeys(sorted(goals, key=len, reverse=True)), set[Row]()
    while open_goals:
        goal = next(iter(open_goals))
        if any(known <= goal for known in refused):
            del open_goals[goal]
            continue
        row = _widened(goal, flags, open_goals, refused, rng)
        try:
            why = run(sorted(row))
            if why is None:
                for size in (1, 2):
                    for done in itertools.combinations(row, size):
                        open_goals.pop(frozenset(done), None)
                continue
            named = set(re.findall(r"--[a-z][\w-]*", why))
            least = frozenset(
                item
                for items in flags.values()
                if named & {word for word, *_ in items}
                for item in row.intersection(items)
            )
            if not least or (least != row and not run(sorted(least))):
                least = _least(row, run)
                wrong.append(f"{_line(least)}: is refused, but the line does not say so: {why}")
        except Exception as error:
            least = _least(row, run)
            wrong.append(f"{_line(least)}: {error!r:.300}; {error.__cause__!r}")
        refused.add(least)
    assert not wrong, "\n".join(wrong)
    return refused


def _least(row: Row, run: Callable[[list[Item]], str | None]) -> Row:
    """What is left of a row that does not end well, without all that can be left out."""
    for item in sorted(row):
        try:
            if run(sorted(row - {item})) is None:
                continue
        except Exception:
            pass
        row -= {item}
    return row


def _widened(goal: Row, flags, open_goals, refused: set[Row], rng: random.Random) -> Row:
    """The goal with items of other flags that serve other goals."""
    row = set(goal)
    others = [items for items in flags.values() if not goal.intersection(items)]
    rng.shuffle(others)
    for items in others:
        served = {
            item: sum(frozenset({item, each}) in open_goals for each in {*row, item})
            for item in items
            if not any(item in known and known <= {*row, item} for known in refused)
        }
        best = max(served, key=served.__getitem__, default=None)
        if best and served[best]:
            row.add(best)
    return frozenset(row)


def _line(row: Iterable[Item]) -> str:
    return " ".join(word for item in sorted(row) for word in item)
