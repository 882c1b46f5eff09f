"""Pictures of `hardsplat bench`, PNG: readable in grey, one measure an axis. matplotlib is imported when the first is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from app.contract import PURPOSES
from app.errors import UserError
from app.study.measure import GRADIENTS, STAGES, Row
from app.study.tables import atomic_of, errors_of, label, memory_of, telling, varying

_GREYS = ("0.15", "0.85", "0.4", "0.65", "0.95", "0.3", "0.75", "0.55", "1.0", "0.05")
_HATCHES = ("", "///", "", "xxx", "...", "", "\\\\\\", "", "++", "")
_MARKERS = "os^Dvx*P<>"


def write_plots(rows: list[Row], folder: Path, device: str) -> list[Path]:
    """Writes those of PLOTS that the rows have numbers for, as bench_<name>.png. Raises UserError when a file cannot be written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    out = []
    for name, draw in PLOTS.items():
        figure, axes = plt.subplots(layout="constrained")
        try:
            if draw(axes, rows):
                axes.set_title(f"{axes.get_title()}\n{device}", fontsize=9)
                figure.savefig(path := folder / f"bench_{name}.png", dpi=130)
                out.append(path)
        except OSError as error:
            raise UserError(f"cannot write {folder / f'bench_{name}.png'}: {error.strerror}") from None
        finally:
            plt.close(figure)
    return out


def _legend(axes) -> None:
    count = len(axes.get_legend_handles_labels()[1])
    axes.figure.legend(fontsize=7, loc="outside lower center", ncols=min(count, 5))


def _stacked(axes, rows: list[Row], names: list[str], parts: dict[str, list[float]], title: str, unit: str) -> bool:
    """Horizontal bars, one a row, of the parts that are not zero everywhere."""
    left, places = np.zeros(len(rows)), np.arange(len(rows))
    for i, (name, values) in enumerate(parts.items()):
        if any(values):
            style = dict(color=_GREYS[i % len(_GREYS)], hatch=_HATCHES[i % len(_HATCHES)], edgecolor="black", linewidth=0.5)
            axes.barh(places, values, left=left, label=name, **style)
            left += values
    if not left.any():
        return False
    for place, whole in zip(places, left):
        axes.annotate(f"{whole:.4g}", (whole, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(places, [label(r, names) for r in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.1)
    axes.set_xlabel(unit)
    axes.set_title(title)
    _legend(axes)
    axes.figure.set_size_inches(8, 2 + 0.3 * len(rows))
    return True


def stages(axes, rows: list[Row]) -> bool:
    parts = {s: [r.stages[s] for r in rows] for s in STAGES}
    return _stacked(axes, rows, varying(rows), parts, "GPU time by stage, mean over views", "milliseconds")


def memory(axes, rows: list[Row]) -> bool:
    names, rows = telling(rows, varying(rows), memory_of)
    parts = {p: [r.memory[p] / 1e6 for r in rows] for p in (*PURPOSES, "other")}
    return _stacked(axes, rows, names, parts, "Device memory by purpose, as allocated", "megabytes (1e6 bytes)")


def errors(axes, rows: list[Row]) -> bool:
    """Rows whose error is 0 everywhere, the reference itself among them, have no place on a logarithmic axis."""
    rows = [r for r in rows if any(r.errors.values())]
    if not rows:
        return False
    names, rows = telling(rows, varying(rows), errors_of)
    width, places = 0.8 / len(GRADIENTS), np.arange(len(rows))
    for i, name in enumerate(GRADIENTS):
        style = dict(color=_GREYS[i], hatch=_HATCHES[i], edgecolor="black", linewidth=0.5)
        axes.bar(places + (i - 2) * width, [r.errors[name] or np.nan for r in rows], width, label=name, **style)
    axes.set_yscale("log")
    axes.set_ylabel("relative L2 against a float32 target")
    axes.set_xticks(places, [label(r, names).replace(" ", "\n") for r in rows], fontsize=7)
    axes.set_title("Gradient error by parameter class")
    axes.grid(axis="y", alpha=0.3)
    _legend(axes)
    axes.figure.set_size_inches(max(6, 1.5 + 0.9 * len(rows)), 4.5)
    return True


def _lines(axes, rows: list[Row], x: Callable[[Row], float], y: Callable[[Row], float], names: list[str]) -> bool:
    """A line through the rows of each combination of `names` that has two points or more."""
    groups: dict[str, list[Row]] = {}
    for r in rows:
        groups.setdefault(label(r, names), []).append(r)
    drawn = {name: sorted(group, key=x) for name, group in groups.items() if len({x(r) for r in group}) > 1}
    if not drawn:
        return False
    for i, (name, group) in enumerate(drawn.items()):
        style = dict(color=("0.0", "0.4", "0.65")[i % 3], linestyle=("-", "--", ":", "-.")[i % 4], marker=_MARKERS[i % len(_MARKERS)], markersize=5)
        axes.plot([x(r) for r in group], [y(r) for r in group], label=name, **style)
    ticks = sorted({x(r) for group in drawn.values() for r in group})
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    _legend(axes)
    axes.figure.set_size_inches(6.5, 5)
    return True


def threshold(axes, rows: list[Row]) -> bool:
    """The sweep of --hybrid-threshold."""
    swept = [r for r in rows if "hybrid_threshold" in r.options and r.stages["backward draw"]]
    names = [n for n in varying(rows) if n != "hybrid_threshold"]
    axes.set_xlabel("hybrid threshold [contributing lanes of 32]")
    axes.set_ylabel("backward draw [ms]")
    axes.set_title("Backward draw by threshold of the reduction")
    return _lines(axes, swept, lambda r: r.options["hybrid_threshold"], lambda r: r.stages["backward draw"], names)


def sizes(axes, rows: list[Row]) -> bool:
    """Backward draw over that of naive atomics, by size of the model."""
    ratios = {id(r): r.stages["backward draw"] / b.stages["backward draw"] for r in rows if (b := atomic_of(r, rows)) and b.stages["backward draw"] and b is not r}
    names = [n for n in varying(rows) if n != "splats"]
    axes.set_xscale("log")
    axes.set_xlabel("splats")
    axes.set_ylabel("backward draw, ratio to one atomic per fragment")
    axes.set_title("Gain of the reductions by scene size")
    return _lines(axes, [r for r in rows if id(r) in ratios], lambda r: r.splats, lambda r: ratios[id(r)], names)


PLOTS = {"stages": stages, "memory": memory, "errors": errors, "threshold": threshold, "sizes": sizes}
