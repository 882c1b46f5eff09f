"""Plots that `hardsplat sweep` alone has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardsplat.report import charts
from hardsplat.study.plots import SHARED, Plot
from hardsplat.study.sweep.tables import Point


def quality_time(axes, found: Sequence[Point]) -> bool:
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
        style: dict = dict(label=p.label, linewidth=1, capsize=3, **charts.line(i))
        axes.errorbar(seconds, np.mean(psnrs, axis=1), spread, **style)
    axes.set(xlabel="training time [s]", ylabel="PSNR of held-out views [dB]")
    axes.set(title="Quality against time" + ", mean and deviation of seeds" * repeated)
    axes.grid(alpha=0.3)
    charts.legend(axes)
    axes.figure.set_size_inches(8, 5 + 0.16 * -(-len(found) // 5))
    return bool(axes.lines)


PLOTS: dict[str, Plot] = {"quality_time": quality_time, **SHARED}
