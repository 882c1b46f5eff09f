"""Plots of a training run: loss, quality, number of splats, speed, and where time and memory go."""

from __future__ import annotations

import numpy as np

from hardsplat.report.charts import COLORS, after_bar, figure, plain_numbers
from hardsplat.report.page import plot
from hardsplat.report.stages import by_stage


def early_plots(metrics: dict) -> dict[str, str]:
    """Plots by their words that do without measurements of held-out views, of those that there are
    numbers for. memory_bytes and stage_ms are of the whole run."""
    stages = by_stage(metrics["stage_ms"])
    memory = {purpose: n / 2**20 for purpose, n in metrics["memory_bytes"].items() if n}
    points = len(metrics["curve"]["step"])
    early = [words for words in CURVES if words != QUALITY and points > (words == RATE)]
    out = {words: _curve(words, metrics) for words in early}
    if stages:
        out[STAGES] = plot(_bars(stages, STAGES, "ms"))
    return out | {MEMORY: plot(_bars(memory, MEMORY, "MiB"))}


def late_plots(metrics: dict) -> dict[str, str]:
    """The other plots of a report."""
    return {QUALITY: _curve(QUALITY, metrics)} if metrics["curve"]["step"] else {}


def _curve(words: str, metrics: dict) -> str:
    page = figure(6.4, 3.6, left=0.75)
    axes = page.subplots()
    CURVES[words](axes, metrics)
    if words != RATE:
        axes.set_xlabel("step")
    return plot(page)


def curves(metrics: dict):
    """Loss, PSNR and number of splats by step, as one figure."""
    page = figure(8, 8, left=0.85)
    panels = page.subplots(3, 1, sharex=True)
    for axes, draw in zip(panels, (_loss, _quality, _splats)):
        draw(axes, metrics)
    panels[-1].set_xlabel("step")
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


def _bars(values: dict[str, float], title: str, unit: str):
    page = figure(6.4, 1.0 + 0.3 * len(values), left=0.3 + 0.085 * max(map(len, values), default=0))
    axes = page.subplots()
    whole = sum(values.values())
    for i, value in enumerate(values.values()):
        axes.barh(i, value, color=COLORS[0])
        after_bar(axes, f"{value:.3g} {unit} ({value / whole:.0%})", (value, i), 9)
    axes.set_yticks(range(len(values)), values)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.margins(x=0.28)
    axes.set_title(f"{title}: {whole:.4g} {unit}")
    axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    return page


LOSS = "Loss by step"
QUALITY = "PSNR by step"
RATE = "Steps per second by training time"
STAGES = "Time of a step"
MEMORY = "Memory by purpose"
# what draws each, in the order of the page
CURVES = {LOSS: _loss, QUALITY: _quality, "Number of splats by step": _splats, RATE: _rate}
