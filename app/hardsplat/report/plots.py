"""Curves of a training run: loss, quality, number of splats, speed."""

from __future__ import annotations

import numpy as np

from hardsplat.report.charts import COLORS, figure, plain_numbers


def curves(metrics: dict):
    """A matplotlib Figure of loss, PSNR and number of splats by step, and of steps per second by
    training time."""
    page = figure(12, 8, left=0.85)
    (loss, quality), (splats, rate) = page.subplots(2, 2)
    _loss(loss, metrics)
    _quality(quality, metrics)
    _splats(splats, metrics)
    _rate(rate, metrics)
    for axes in (loss, quality, splats):
        axes.set_xlabel("step")
    return page


def _by_step(axes, metrics: dict, values, color: str, label: str | None = None) -> None:
    """A curve, with points where there are few. Plain lines of the axes behind it."""
    steps = metrics["curve"]["step"]
    points = dict(marker=".", markersize=4) if len(steps) < 40 else {}
    axes.plot(steps, values, color=color, label=label, linewidth=1.2, **points)
    axes.grid(alpha=0.3)


def _loss(axes, metrics: dict) -> None:
    _by_step(axes, metrics, metrics["curve"]["loss"], COLORS[0])
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set(ylabel="loss, mean of a batch", title="Loss: L1 + D-SSIM")


def _quality(axes, metrics: dict) -> None:
    psnrs = metrics["curve"]["psnr"]
    _by_step(axes, metrics, psnrs, COLORS[1], "training views, mean of a batch")
    if looks := metrics.get("validation", {}).get("looks"):
        steps, psnrs = ([each[name] for each in looks] for name in ("step", "psnr"))
        axes.plot(steps, psnrs, color=COLORS[2], marker=".", label="held-back photographs")
    if measured := metrics["evaluations"]:
        steps, psnrs = ([e[name] for e in measured] for name in ("step", "psnr"))
        style: dict = dict(color=COLORS[0], linestyle="--", marker="o", markersize=7)
        axes.plot(steps, psnrs, **style, label="held-out views")
    axes.set(ylabel="PSNR [dB]", title="Quality")
    axes.legend(loc="lower right")


def _splats(axes, metrics: dict) -> None:
    thousands = [n / 1000 for n in metrics["curve"]["splats"]]
    _by_step(axes, metrics, thousands, COLORS[0])
    axes.set(ylabel="splats [thousands]", title="Number of splats")
    axes.set_ylim(bottom=0)


def _rate(axes, metrics: dict) -> None:
    """Steps that were made before times were kept have none."""
    curve = metrics["curve"]
    seconds = np.array(curve.get("seconds") or [None] * len(curve["step"]), float)
    axes.plot(*_speed(np.array(curve["step"]), seconds), color=COLORS[0], linewidth=1.2)
    axes.set(ylabel="steps per second", xlabel="training time [s]", title="Speed")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _speed(steps: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and steps per second between points of the curve at least 1 % of the training apart:
    batches that are read together would be spikes."""
    known = np.flatnonzero(np.isfinite(seconds))
    kept = list(known[:1])
    for i in known[1:]:
        if seconds[i] - seconds[kept[-1]] > 0.01 * seconds[known[-1]]:
            kept.append(i)
    return seconds[kept[1:]], np.diff(steps[kept]) / np.diff(seconds[kept])
