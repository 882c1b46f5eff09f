"""Curves of a training run: loss, quality, number of splats, speed."""

from __future__ import annotations

import numpy as np

from hardsplat.report.charts import COLORS, figure, plain_numbers


def curves(metrics: dict):
    """A matplotlib Figure of loss, PSNR and number of splats by step, and of steps per second by
    training time."""
    page, curve = figure(12, 8, left=0.85), metrics["curve"]
    (loss, quality), (splats, rate) = page.subplots(2, 2)
    steps = curve["step"]
    style: dict = dict(linewidth=1.2, **(dict(marker=".", markersize=4) if len(steps) < 40 else {}))
    loss.plot(steps, curve["loss"], color=COLORS[0], **style)
    loss.set_yscale("log")
    plain_numbers(loss.yaxis)
    loss.set(ylabel="loss, mean of a batch", title="Loss: L1 + D-SSIM")
    label = "training views, mean of a batch"
    quality.plot(steps, curve["psnr"], color=COLORS[1], label=label, **style)
    for measured, color, label in (
        (metrics.get("validation", {}).get("looks"), COLORS[2], "held-back photographs"),
        (metrics["evaluations"], COLORS[0], "held-out views"),
    ):
        if measured:
            at, psnrs = ([each[name] for each in measured] for name in ("step", "psnr"))
            quality.plot(at, psnrs, color=color, linestyle="--", marker="o", label=label)
    quality.set(ylabel="PSNR [dB]", title="Quality")
    quality.legend(loc="lower right")
    splats.plot(steps, [n / 1000 for n in curve["splats"]], color=COLORS[0], **style)
    splats.set(ylabel="splats [thousands]", title="Number of splats")
    # steps that were made before times were kept have none
    seconds = np.array(curve.get("seconds") or [None] * len(steps), float)
    rate.plot(*_speed(np.array(steps), seconds), color=COLORS[0], linewidth=1.2)
    rate.set(ylabel="steps per second", xlabel="training time [s]", title="Speed")
    for axes in (loss, quality, splats):
        axes.set_xlabel("step")
    for axes in page.axes:
        axes.grid(alpha=0.3)
        # whose place is otherwise found from all words around it, a third of the time of a plot
        axes.set_title(axes.get_title(), y=1.0)
    splats.set_ylim(bottom=0)
    rate.set_ylim(bottom=0)
    return page


def _speed(steps: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and steps per second between points of the curve at least 1 % of the training apart:
    batches that are read together would be spikes."""
    known = np.flatnonzero(np.isfinite(seconds))
    kept = list(known[:1])
    for i in known[1:]:
        if seconds[i] - seconds[kept[-1]] > 0.01 * seconds[known[-1]]:
            kept.append(i)
    return seconds[kept[1:]], np.diff(steps[kept]) / np.diff(seconds[kept])
