"""Plots of `hardsplat bench`, PNG: readable in grey, one measure an axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hardsplat.contract.footprint import PURPOSES
from hardsplat.report import charts
from hardsplat.study.bench.errors import GRADIENTS
from hardsplat.study.bench.measure import STAGES, Measurement
from hardsplat.study.bench.tables import (
    atomic_of,
    backward_draw,
    errors_of,
    label,
    memory_of,
    telling,
    varying,
)


def write_plots(results: list[Measurement], folder: Path, device: str) -> list[Path]:
    """Writes those of PLOTS that the rows have numbers for, as bench_<name>.png. Raises UserError
    when a file cannot be written."""
    out = []
    for name, draw in PLOTS.items():
        axes = charts.figure(6, 5).subplots()
        if draw(axes, results):
            axes.set_title(f"{axes.get_title()}\n{device}", fontsize=9)
            out.append(charts.save(axes.figure, folder / f"bench_{name}.png"))
    return out


def _labels(results: list[Measurement], names: list[str]) -> list[str]:
    return [label(r, names) for r in results]


def stages(axes, results: list[Measurement]) -> bool:
    parts, labels = {s: [r.stages[s] for r in results] for s in STAGES}, varying(results)
    title = "Time on the device by stage, mean over views"
    return charts.stacked(axes, _labels(results, labels), parts, title, "milliseconds")


def memory(axes, results: list[Measurement]) -> bool:
    names, results = telling(results, varying(results), memory_of)
    parts = {p: [r.memory[p] / 1e6 for r in results] for p in (*PURPOSES, "other")}
    title = "Device memory by purpose, as allocated"
    return charts.stacked(axes, _labels(results, names), parts, title, "megabytes (1e6 bytes)")


def errors(axes, results: list[Measurement]) -> bool:
    """Rows whose error is 0 everywhere, the reference itself among them, have no place on a
    logarithmic axis."""
    results = [r for r in results if any(r.errors.values())]
    if not results:
        return False
    names, results = telling(results, varying(results), errors_of)
    series = {name: [r.errors[name] for r in results] for name in GRADIENTS}
    title, unit = "Gradient error by parameter class", "relative L2 against a float32 target"
    return charts.grouped(axes, _labels(results, names), series, title, unit)


def _lines(axes, names: list[str], points: Sequence[tuple[Measurement, float, float]]) -> bool:
    """A line through the points (row, x, y) of each combination of `names` that has two of them or
    more."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for r, x, y in sorted(points, key=lambda point: point[1]):
        groups.setdefault(label(r, names), []).append((x, y))
    groups = {name: line for name, line in groups.items() if len({x for x, _ in line}) > 1}
    if not groups:
        return False
    for i, (name, line) in enumerate(groups.items()):
        axes.plot(*zip(*line), label=name, **charts.line(i))
    ticks = sorted({x for line in groups.values() for x, _ in line})
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    charts.legend(axes)
    axes.figure.set_size_inches(6.5, 5)
    return True


def threshold(axes, results: list[Measurement]) -> bool:
    """The sweep of --hybrid-threshold."""
    swept = [r for r in results if "hybrid_threshold" in r.options and backward_draw(r)]
    axes.set_xlabel("hybrid threshold [contributing lanes of 32]")
    axes.set_ylabel("backward draw [ms]")
    axes.set_title("Backward draw by threshold of the reduction")
    found = [(r, r.options["hybrid_threshold"], backward_draw(r)) for r in swept]
    return _lines(axes, [n for n in varying(results) if n != "hybrid_threshold"], found)


def sizes(axes, results: list[Measurement]) -> bool:
    """Backward draw over that of naive atomics, by size of the model."""
    bases = [(r, atomic_of(r, results)) for r in results]
    axes.set_xscale("log")
    axes.set_xlabel("splats")
    axes.set_ylabel("backward draw, ratio to one atomic per fragment")
    axes.set_title("Gain of the reductions by scene size")
    ratios = [
        (r, r.splats, backward_draw(r) / backward_draw(base))
        for r, base in bases
        if base and base is not r and backward_draw(base)
    ]
    return _lines(axes, [n for n in varying(results) if n != "splats"], ratios)


PLOTS = {f.__name__: f for f in (stages, memory, errors, threshold, sizes)}
