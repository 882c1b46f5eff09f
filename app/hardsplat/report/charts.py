"""What all plots share: colours that a grey print tells apart too, line styles, markers; figures as
files or within a page. Curves of a training run."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from hardsplat.base.files import written

# of the series of a plot; on paper dark, light and between
COLORS = ("#0b4f9e", "#e8891c", "#5f6670")
MARKERS = "os^Dvx*P<>"


def figure(width: float, height: float, left: float = 0.0):
    """A matplotlib Figure of so many inches, apart from pyplot and its windows.

    left: inches of a margin that holds the words beside one column of axes; by default the figure
    measures all words, which takes half of the time of a plot.
    """
    # a third of a second, which help and bad input need not wait for
    from matplotlib.figure import Figure

    if not left:
        return Figure(figsize=(width, height), layout="constrained")
    page = Figure(figsize=(width, height))
    page.subplots_adjust(
        left=left / width,
        right=1 - 0.15 / width,
        bottom=0.55 / height,
        top=1 - 0.35 / height,
        hspace=0.25,
    )
    return page


def plain_numbers(axis) -> None:
    """Labels of a logarithmic axis as 0.02 instead of 2 x 10^-2: they are narrower, and no
    formulas, which take a tenth of a second to set."""
    from matplotlib.ticker import LogFormatter

    class PlainNumbers(LogFormatter):
        def __call__(self, x, pos=None):
            return f"{x:g}" if super().__call__(x, pos) else ""  # it knows which ones have room

    axis.set_major_formatter(PlainNumbers())
    axis.set_minor_formatter(PlainNumbers(labelOnlyBase=False, minor_thresholds=(2, 0.4)))


def line(i: int) -> dict:
    """Style of the i-th line of a plot."""
    color, style = COLORS[i % len(COLORS)], ("-", "--", ":", "-.")[i % 4]
    return dict(color=color, linestyle=style, marker=MARKERS[i % len(MARKERS)], markersize=5)


def legend(axes) -> None:
    """Below the plot."""
    if count := len(axes.get_legend_handles_labels()[1]):
        axes.figure.legend(fontsize=7, loc="outside lower center", ncols=min(count, 5))


def take_literally(figure) -> None:
    """Words of a figure are shown as they are: names of files may hold a $, which begins a formula
    for matplotlib, or bytes that are no text.

    Labels of ticks stay as they are, since those of logarithmic axes are formulas.
    """
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.texts)]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        texts += own.texts if (own := axes.get_legend()) else []
    for text in texts:
        text.set_parse_math(False)
        text.set_text(text.get_text().encode("utf-8", "replace").decode())


def save(figure, path: Path) -> Path:
    """Writes a PNG. Raises UserError where it cannot be written."""
    with written(path):
        path.write_bytes(png(figure))
    return path


def png(figure) -> bytes:
    """The figure as PNG, larger by a sixth and sooner done than by the default of Pillow."""
    take_literally(figure)
    out = io.BytesIO()
    figure.savefig(out, dpi=130, pil_kwargs={"compress_level": 1})
    return out.getvalue()


def svg(figure) -> bytes:
    """The figure as SVG, with its words as text."""
    import matplotlib

    take_literally(figure)
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def curves(metrics: dict, page=None):
    """A matplotlib Figure of loss, PSNR and number of splats by step, and of steps per second by
    training time. page: an earlier one, which is drawn anew: its axes and ticks are there."""
    page, curve = page or _empty_curves(), metrics["curve"]
    loss, quality, splats, rate = page.axes
    for axes in page.axes:
        for line in (*axes.lines,):
            line.remove()
        axes.relim()
        axes.autoscale()
    steps = curve["step"]
    style: dict = dict(linewidth=1.2, **(dict(marker=".", markersize=4) if len(steps) < 40 else {}))
    loss.plot(steps, curve["loss"], color=COLORS[0], **style)
    label = "training views, mean of a batch"
    quality.plot(steps, curve["psnr"], color=COLORS[1], label=label, **style)
    for measured, color, label in (
        (metrics.get("validation", {}).get("looks"), COLORS[2], "held-back photographs"),
        (metrics["evaluations"], COLORS[0], "held-out views"),
    ):
        if measured:
            at, psnrs = ([each[name] for each in measured] for name in ("step", "psnr"))
            quality.plot(at, psnrs, color=color, linestyle="--", marker="o", label=label)
    quality.legend(loc="lower right")
    splats.plot(steps, [n / 1000 for n in curve["splats"]], color=COLORS[0], **style)
    # steps that were made before times were kept have none
    seconds = np.array(curve.get("seconds") or [None] * len(steps), float)
    rate.plot(*_speed(np.array(steps), seconds), color=COLORS[0], linewidth=1.2)
    splats.set_ylim(bottom=0)
    rate.set_ylim(bottom=0)
    return page


def _empty_curves():
    """The figure of `curves` without any."""
    page = figure(12, 8, left=0.85)
    loss, quality, splats, rate = page.subplots(2, 2).flat
    loss.set_yscale("log")
    plain_numbers(loss.yaxis)
    loss.set(ylabel="loss, mean of a batch")
    quality.set(ylabel="PSNR [dB]")
    splats.set(ylabel="splats [thousands]")
    rate.set(ylabel="steps per second", xlabel="training time [s]")
    titles = "Loss: L1 + D-SSIM", "Quality", "Number of splats", "Speed"
    for axes, title in zip(page.axes, titles):
        axes.set_xlabel(axes.get_xlabel() or "step")
        axes.grid(alpha=0.3)
        # whose place is otherwise found from all words around it, a third of the time of a plot
        axes.set_title(title, y=1.0)
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
