"""Plots of measurements, PNG: readable in grey, one measure an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hardsplat.contract.footprint import PURPOSES
from hardsplat.report import charts
from hardsplat.report.stages import STAGES
from hardsplat.study.tables import GRADIENTS, labels_of, telling, varying

# settings that decide how exact gradients are
ROUNDING = "rasterizer format state_format block shape segments blending tile_backward gradient"


class Numbers(Protocol):
    """A row of numbers. stages: ms by stage. memory: bytes by purpose. errors: relative L2 by
    gradient; none where they were not measured."""

    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def stages(self) -> Mapping[str, float]: ...
    @property
    def memory(self) -> Mapping[str, float]: ...
    @property
    def errors(self) -> Mapping[str, float]: ...


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


def stages(axes, rows: Sequence[Numbers]) -> bool:
    parts = {s: [r.stages.get(s, 0.0) for r in rows] for s in (*STAGES, "other")}
    labels, title = labels_of(rows, varying(rows)), "Time by stage"
    return charts.stacked(axes, labels, parts, title, "time on the device, mean [ms]")


def _mebibytes(row: Numbers) -> dict[str, float]:
    return {name: round(row.memory.get(name, 0) / 2**20, 2) for name in (*PURPOSES, "other")}


def memory(axes, rows: Sequence[Numbers]) -> bool:
    """A bar for each combination of the settings that it depends on."""
    names, rows = telling(rows, varying(rows), _mebibytes)
    parts = {name: [_mebibytes(r)[name] for r in rows] for name in (*PURPOSES, "other")}
    title = "Memory on the device by purpose"
    return charts.stacked(axes, labels_of(rows, names), parts, title, "memory [MiB]")


def gradient_error(axes, rows: Sequence[Numbers]) -> bool:
    """Medians by format, or by other settings that decide how exact gradients are, and the range
    where several rows share a place. A row whose error is 0 everywhere, such as the reference
    itself, has no place on a logarithmic axis."""
    rows = [r for r in rows if any(r.errors.values())]
    if not rows:
        return False
    names = [n for n in ROUNDING.split() if n in varying(rows)]
    groups: dict[str, list[Numbers]] = {}
    for r, name in zip(rows, labels_of(rows, names or varying(rows))):
        groups.setdefault(name, []).append(r)
    values = {g: [[r.errors[g] for r in group] for group in groups.values()] for g in GRADIENTS}
    series = {g: [float(np.median(errors)) for errors in places] for g, places in values.items()}
    title = "Gradient error by format" if names[:1] == ["format"] else "Gradient error"
    charts.grouped(axes, list(groups), series, title, "relative L2 against a float32 target")
    axes.figure.set_size_inches(max(8, axes.figure.get_figwidth()), 4.5)
    width = 0.8 / len(GRADIENTS)
    for i, places in enumerate(values.values()):
        for place, errors in enumerate(places):
            if len(errors) > 1 and min(errors) > 0:
                x = place + (i - len(GRADIENTS) // 2) * width
                axes.vlines(x, min(errors), max(errors), color="black", linewidth=1)
    return True


SHARED: dict[str, Plot] = {f.__name__: f for f in (stages, gradient_error, memory)}
