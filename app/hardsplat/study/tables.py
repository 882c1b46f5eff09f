"""Tables and plots of measurements. Tables are Markdown that terminals show as well; plots are
readable in grey. A row of numbers has `settings`, by name, that tell it from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hardsplat.contract.footprint import PURPOSES
from hardsplat.report import charts
from hardsplat.report.stages import STAGES

GRADIENTS = ("means", "quats", "scales", "opacities", "sh")  # whose errors are measured
# words of several settings, which do not say of which
_COMMON_WORDS = ("auto", "same", "none", "all")


class Row(Protocol):
    """stages: ms by stage. memory: bytes by purpose."""

    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def stages(self) -> Mapping[str, float]: ...
    @property
    def memory(self) -> Mapping[str, float]: ...


def varying(rows: Sequence[Row]) -> list[str]:
    """Settings in which rows differ. A state format that always follows the format adds nothing of
    its own."""
    found = [r.settings for r in rows]
    follows = all(s.get("state_format") == s.get("format") for s in found)
    names = dict.fromkeys(n for s in found for n in s if not (n == "state_format" and follows))
    return [n for n in names if len({s.get(n) for s in found}) > 1]


def values_of(row: Row, names: Iterable[str]) -> list[str]:
    found = (row.settings.get(name) for name in names)
    return ["-" if value is None else str(value) for value in found]


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


# -- plots

Plot = Callable[[Any, Sequence[Any]], bool]  # (axes, rows): whether there is something to see


def write_plots(
    folder: Path, name: str, plots: Mapping[str, Plot], rows: Sequence, about: str
) -> dict[str, Any]:
    """Writes those of the plots that the rows have numbers for as <name>_<plot>.png, and deletes
    earlier ones of the others; returns figures. Raises UserError when a file cannot be written."""
    out = {}
    for plot, draw in plots.items():
        path = folder / f"{name}_{plot}.png"
        axes = charts.figure(8, 5.5).subplots()
        if rows and draw(axes, rows):
            axes.set_title(f"{axes.get_title()}\n{about}", fontsize=10)
            charts.save(axes.figure, path)
            out[plot] = axes.figure
        else:
            path.unlink(missing_ok=True)
    return out


def stages(axes, rows: Sequence[Row]) -> bool:
    parts = {s: [r.stages.get(s, 0.0) for r in rows] for s in (*STAGES, "other")}
    labels, title = labels_of(rows, varying(rows)), "Time by stage"
    return charts.stacked(axes, labels, parts, title, "time on the device, mean [ms]")


def memory(axes, rows: Sequence[Row]) -> bool:
    parts = {p: [r.memory.get(p, 0) / 2**20 for r in rows] for p in (*PURPOSES, "other")}
    labels, title = labels_of(rows, varying(rows)), "Memory on the device by purpose"
    return charts.stacked(axes, labels, parts, title, "memory [MiB]")


PLOTS: dict[str, Plot] = {"stages": stages, "memory": memory}
