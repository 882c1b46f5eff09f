"""Tables of measurements, for files in Markdown and for terminals. A row of numbers has `settings`,
by name, that tell it from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar


class Row(Protocol):
    @property
    def settings(self) -> Mapping[str, Any]: ...


GRADIENTS = ("means", "quats", "scales", "opacities", "sh")  # whose errors are measured
R = TypeVar("R", bound=Row)
# words of several settings, which do not say of which
_COMMON_WORDS = ("auto", "same", "none", "all")


def varying(rows: Sequence[Row]) -> list[str]:
    """Settings in which rows differ. A state format that always follows the format adds nothing of
    its own."""
    found = [r.settings for r in rows]
    follows = all(s.get("state_format") == s.get("format") for s in found)
    names = dict.fromkeys(n for s in found for n in s if not (n == "state_format" and follows))
    return [n for n in names if len({s.get(n) for s in found}) > 1]


def value(row: Row, name: str) -> str:
    found = row.settings.get(name)
    return "-" if found is None else str(found)


def values_of(row: Row, names: Iterable[str]) -> list[str]:
    return [value(row, n) for n in names]


def label_of(settings: Mapping[str, Any]) -> str:
    """Names of rows speak for themselves; numbers and the like need the name of the setting."""
    return " ".join(
        str(v) if isinstance(v, str) and v not in _COMMON_WORDS else f"{n}={v}"
        for n, v in settings.items()
        if v is not None
    )


def labels_of(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """What tells each row from the others, for plots."""
    named = [{n: r.settings.get(n) for n in names} for r in rows]
    return [label_of(each) or "all" for each in named]


def telling(rows: Sequence[R], names: list[str], what: Callable) -> tuple[list[str], list[R]]:
    """Those of `names` that `what` depends on in these rows, and a row for each of their
    combinations."""

    def first(names: list[str]) -> dict[tuple, R]:
        out: dict[tuple, R] = {}
        for r in rows:
            out.setdefault(tuple(values_of(r, names)), r)
        return out

    for name in reversed(names):
        fewer = [n for n in names if n != name]
        firsts = first(fewer)
        if all(what(r) == what(firsts[tuple(values_of(r, fewer))]) for r in rows):
            names = fewer
    return names, list(first(names).values())


def aligned(head: list[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """A table as a terminal shows it: columns of one width, numbers to the right."""
    rows = [head, *map(list, lines)]
    columns = list(zip(*rows))
    widths = [max(map(len, column)) for column in columns]
    right = [any(cell[:1].isdigit() for cell in column[1:]) for column in columns]
    padded = (
        [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)] for row in rows
    )
    first, *others = ("  ".join(cells).rstrip() for cells in padded)
    return [first, "  ".join("-" * width for width in widths), *others]


def readable(text: str) -> str:
    """Markdown of this module as a terminal shows it: tables aligned, titles without marks."""
    out: list[str] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            rows.append(line[2:-2].split(" | "))
            continue
        if rows:
            out += aligned(rows[0], rows[2:])
            rows = []
        out.append(line.lstrip("#").lstrip() if line.startswith("#") else line)
    return "\n".join(out[:-1])


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a table in Markdown."""
    head = [*head]
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)]


def section(title: str, note: str, head: list[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a title, a note and a table; none without rows."""
    rows = [*map(list, lines)]
    return ["", f"## {title}", "", note, "", *table(head, rows)] if rows else []


def origin(about: Mapping[str, Any]) -> str:
    """Program, commit, time and command of numbers, in a line."""
    program = f"hardsplat {about['hardsplat']}, commit {about['commit'] or 'not known'}"
    return f"{program}, {about['date']}: `{about['command']}`"
