"""Plots of a sweep, as PNG and within the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hardsplat.contract.footprint import PURPOSES
from hardsplat.report import charts
from hardsplat.report.stages import STAGES
from hardsplat.study.bench.errors import GRADIENTS
from hardsplat.study.bench.tables import telling
from hardsplat.study.sweep.sweep_tables import (
    Point,
    devices,
    gradient,
    label_of,
    number,
    points,
    stage_ms,
)

# settings that decide how exact gradients are
ROUNDING = "rasterizer format state_format block segments blending tile_backward".split()


def write_plots(folder: Path, records: list[dict]) -> dict[str, object]:
    """Writes those of PLOTS that the runs have numbers for as sweep_<name>.png; returns their
    figures. Raises UserError when a file cannot be written."""
    out, found = {}, points(records)
    for name, draw in PLOTS.items():
        path = folder / f"sweep_{name}.png"
        axes = charts.figure(8, 5.5).subplots()
        if found and draw(axes, found):
            axes.set_title(f"{axes.get_title()}\n{'; '.join(devices(records))}", fontsize=10)
            charts.save(axes.figure, path)
            out[name] = axes.figure
        else:
            path.unlink(missing_ok=True)  # of fewer or other runs
    return out


def quality_time(axes, found: list[Point]) -> bool:
    """A line through the evaluations of each combination; of several seeds their means, with bars
    of a standard deviation of a sample."""
    repeated = False
    for i, p in enumerate(found):
        lines = [r["metrics"]["evaluations"] for r in p.runs if r["metrics"]["evaluations"]]
        same = list(zip(*map(reversed, lines)))[::-1]  # of all seeds the last one, the one before
        if not same:
            continue
        seconds = [np.mean([e["training_seconds"] for e in each]) for each in same]
        psnrs = [[e["psnr"] for e in each] for each in same]
        spread = [np.std(each, ddof=1) for each in psnrs] if len(lines) > 1 else None
        repeated = repeated or len(lines) > 1
        how: dict = dict(label=p.label, linewidth=1, capsize=3, **charts.line(i))
        axes.errorbar(seconds, np.mean(psnrs, axis=1), spread, **how)
    axes.set(xlabel="training time [s]", ylabel="PSNR of held-out views [dB]")
    axes.set(title="Quality against time" + ", mean and deviation of seeds" * repeated)
    axes.grid(alpha=0.3)
    charts.legend(axes)
    axes.figure.set_size_inches(8, 5 + 0.16 * -(-len(found) // 5))
    return bool(axes.lines)


def stages(axes, found: list[Point]) -> bool:
    parts = {s: [p.mean(stage_ms(s)) or 0.0 for p in found] for s in (*STAGES, "other")}
    labels, unit = [p.label for p in found], "time on the device, mean over timed steps [ms]"
    return charts.stacked(axes, labels, parts, "Time of a step by stage", unit)


def memory(axes, found: list[Point]) -> bool:
    """A bar for each combination of the settings that it depends on."""
    purposes = (*PURPOSES, "other")

    def used(p: Point) -> dict[str, float]:
        held = {name: p.mean(number("memory_bytes", name)) or 0.0 for name in purposes}
        return {name: round(n / 2**20, 2) for name, n in held.items()}

    names, found = telling(found, list(found[0].settings), used, lambda p, name: p.settings[name])
    labels = [label_of({n: p.settings[n] for n in names}) or "all runs" for p in found]
    parts = {name: [used(p)[name] for p in found] for name in purposes}
    return charts.stacked(axes, labels, parts, "Memory on the device by purpose", "memory [MiB]")


def gradient_error(axes, found: list[Point]) -> bool:
    """Medians by format, or by other settings that decide how exact gradients are, and the range
    where several runs share a place."""
    measured = [p for p in found if p.mean(gradient("errors", GRADIENTS[0])) is not None]
    names = [n for n in ROUNDING if any(n in p.settings for p in measured)]
    groups: dict[str, list[Point]] = {}
    for p in measured:
        name = " ".join(str(v) for n in names if (v := p.settings.get(n)) is not None)
        groups.setdefault(name or p.label, []).append(p)

    def errors_of(group: list[Point], name: str) -> list[float]:
        return [v for p in group for v in p.values(gradient("errors", name))]

    values = {g: [errors_of(group, g) for group in groups.values()] for g in GRADIENTS}
    if not any(v for places in values.values() for errors in places for v in errors):
        return False
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


PLOTS = {f.__name__: f for f in (quality_time, stages, gradient_error, memory)}
