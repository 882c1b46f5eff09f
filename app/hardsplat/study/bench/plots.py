"""Plots that `hardsplat bench` alone has."""

from __future__ import annotations

from collections.abc import Sequence

from hardsplat.report import charts
from hardsplat.study.bench.measure import Measurement
from hardsplat.study.bench.tables import atomic_of, backward_draw
from hardsplat.study.plots import SHARED, Plot
from hardsplat.study.tables import labels_of, varying

_Points = Sequence[tuple[Measurement, float, float]]  # (row, x, y)


def _lines(axes, names: list[str], points: _Points) -> bool:
    """A line through the points of each combination of `names` that has two of them or more."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for r, x, y in sorted(points, key=lambda point: point[1]):
        groups.setdefault(labels_of([r], names)[0], []).append((x, y))
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


def threshold(axes, results: Sequence[Measurement]) -> bool:
    """The sweep of --hybrid-threshold."""
    swept = [r for r in results if "hybrid_threshold" in r.options and backward_draw(r)]
    axes.set(xlabel="hybrid threshold [contributing lanes of 32]", ylabel="backward draw [ms]")
    axes.set_title("Backward draw by threshold of the reduction")
    found = [(r, r.options["hybrid_threshold"], backward_draw(r)) for r in swept]
    return _lines(axes, [n for n in varying(results) if n != "hybrid_threshold"], found)


def sizes(axes, results: Sequence[Measurement]) -> bool:
    """Backward draw over that of naive atomics, by size of the model."""
    bases = [(r, atomic_of(r, results)) for r in results]
    axes.set(xscale="log", xlabel="splats", title="Gain of the reductions by scene size")
    axes.set_ylabel("backward draw, ratio to one atomic per fragment")
    ratios = [
        (r, r.splats, backward_draw(r) / backward_draw(base))
        for r, base in bases
        if base and base is not r and backward_draw(base)
    ]
    return _lines(axes, [n for n in varying(results) if n != "splats"], ratios)


PLOTS: dict[str, Plot] = SHARED | {"threshold": threshold, "sizes": sizes}
