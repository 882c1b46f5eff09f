"""Plots of `hardsplat bench`, PNG: readable in grey, one measure an axis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hardsplat.contract.footprint import PURPOSES
from hardsplat.report import charts
from hardsplat.study.bench.errors import GRADIENTS
from hardsplat.study.bench.measure import STAGES, Measurement
from hardsplat.study.bench.tables import atomic_of, errors_of, label, memory_of, telling, varying


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
    parts, names = {s: [r.stages[s] for r in results] for s in STAGES}, varying(results)
    title = "Time on the device by stage, mean over views"
    return charts.stacked(axes, _labels(results, names), parts, title, "milliseconds")


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


def _lines(
    axes,
    results: list[Measurement],
    x: Callable[[Measurement], float],
    y: Callable[[Measurement], float],
    names: list[str],
) -> bool:
    """A line through the rows of each combination of `names` that has two points or more."""
    groups: dict[str, list[Measurement]] = {}
    for r in results:
        groups.setdefault(label(r, names), []).append(r)
    several = {name: rows for name, rows in groups.items() if len({x(r) for r in rows}) > 1}
    drawn = {name: sorted(rows, key=x) for name, rows in several.items()}
    if not drawn:
        return False
    for i, (name, group) in enumerate(drawn.items()):
        axes.plot([x(r) for r in group], [y(r) for r in group], label=name, **charts.line(i))
    ticks = sorted({x(r) for group in drawn.values() for r in group})
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    charts.legend(axes)
    axes.figure.set_size_inches(6.5, 5)
    return True


def threshold(axes, results: list[Measurement]) -> bool:
    """The sweep of --hybrid-threshold."""
    swept = [r for r in results if "hybrid_threshold" in r.options and r.stages["backward draw"]]
    names = [n for n in varying(results) if n != "hybrid_threshold"]
    axes.set_xlabel("hybrid threshold [contributing lanes of 32]")
    axes.set_ylabel("backward draw [ms]")
    axes.set_title("Backward draw by threshold of the reduction")

    def x(r: Measurement) -> float:
        return r.options["hybrid_threshold"]

    return _lines(axes, swept, x, lambda r: r.stages["backward draw"], names)


def sizes(axes, results: list[Measurement]) -> bool:
    """Backward draw over that of naive atomics, by size of the model."""
    ratios = {
        id(r): r.stages["backward draw"] / b.stages["backward draw"]
        for r in results
        if (b := atomic_of(r, results)) and b.stages["backward draw"] and b is not r
    }
    names = [n for n in varying(results) if n != "splats"]
    axes.set_xscale("log")
    axes.set_xlabel("splats")
    axes.set_ylabel("backward draw, ratio to one atomic per fragment")
    axes.set_title("Gain of the reductions by scene size")
    drawn = [r for r in results if id(r) in ratios]
    return _lines(axes, drawn, lambda r: r.splats, lambda r: ratios[id(r)], names)


PLOTS = {
    "stages": stages,
    "memory": memory,
    "errors": errors,
    "threshold": threshold,
    "sizes": sizes,
}
