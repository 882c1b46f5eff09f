"""Tables of measurements, in Markdown that terminals show as well. Settings by name tell rows
apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

GRADIENTS = ("means", "quats", "scales", "opacities", "sh")  # whose errors are measured
# words of several settings, which do not say of which
_COMMON_WORDS = ("auto", "same", "none", "all")


def varying(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of settings in which rows differ, of the settings of each. A state format that always
    follows the format adds nothing of its own."""
    follows = all(s.get("state_format") == s.get("format") for s in found)
    names = dict.fromkeys(n for s in found for n in s if not (n == "state_format" and follows))
    return [n for n in names if len({s.get(n) for s in found}) > 1]


def values_of(settings: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    found = (settings.get(name) for name in names)
    return ["-" if value is None else str(value) for value in found]


def label_of(settings: Mapping[str, Any]) -> str:
    """Names of rows speak for themselves; numbers and the like need the name of the setting."""
    return " ".join(
        str(v) if isinstance(v, str) and v not in _COMMON_WORDS else f"{n}={v}"
        for n, v in settings.items()
        if v is not None
    )


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a table in Markdown: columns of one width, numbers to the right."""
    rows = [[*head], *map(list, lines)]
    columns = list(zip(*rows))
    widths = [max(3, *map(len, column)) for column in columns]
    right = [any(cell[:1].isdigit() for cell in column[1:]) for column in columns]
    cells = [
        [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)] for row in rows
    ]
    cells.insert(1, ["-" * (w - r) + ":" * r for w, r in zip(widths, right)])
    return [f"| {' | '.join(row)} |" for row in cells]


def section(title: str, note: str, head: list[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a title, a note and a table; none without rows."""
    rows = [*map(list, lines)]
    return ["", f"## {title}", "", note, "", *table(head, rows)] if rows else []


def origin(about: Mapping[str, Any]) -> str:
    """Program, commit, time and command of numbers, in a line."""
    program = f"hardsplat {about['hardsplat']}, commit {about['commit'] or 'not known'}"
    return f"{program}, {about['date']}: `{about['command']}`"
