"""What all plots share: colours that a grey print tells apart too, line styles, markers; figures as
files or within a page. Curves of a training run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.base.files import written

# of the series of a plot; on paper dark, light and between
COLORS = ("#0b4f9e", "#e8891c", "#5f6670")
MARKERS = "os^Dvx*P<>"
DPI = 130  # pixels an inch


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
    """The figure as PNG."""
    # part of half a second, which help and bad input need not wait for
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    take_literally(figure)
    figure.set_dpi(DPI)
    (canvas := FigureCanvasAgg(figure)).draw()
    return _png_of(canvas)


def _png_of(canvas) -> bytes:
    """What is drawn there, larger by a sixth and sooner done than by the default of Pillow."""
    out = io.BytesIO()
    Image.fromarray(np.asarray(canvas.buffer_rgba())).save(out, "PNG", compress_level=1)
    return out.getvalue()


def svg(figure) -> bytes:
    """The figure as SVG, with its words as text."""
    import matplotlib

    take_literally(figure)
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def curves(metrics: dict):
    """A matplotlib Figure of loss, PSNR and number of splats by step, and of steps per second by
    training time."""
    page = _empty_curves()
    _plot_steps(page, metrics["curve"])
    _plot_quality(page, metrics)
    return page


class CurvesAhead:
    """The picture of `curves` of a run, for which its end need not wait: a thread draws what the
    last measurement does not change before that. The figure is drawn once without any, since the
    first time takes half a second."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self._page = _empty_curves()
        self._page.set_dpi(DPI)
        self._canvas = FigureCanvasAgg(self._page)
        nothing: dict = dict(step=[1, 10, 100], loss=[1.0, 0.1, 0.01], seconds=[1.0, 2.0, 3.0])
        nothing |= dict(psnr=[10.0, 20.0, 30.0], splats=[1000, 2000, 3000])
        self.draw(nothing)
        self.png({"curve": nothing, "evaluations": []})

    def draw(self, curve: Mapping[str, list]) -> None:
        """Draws all but the quality. curve: of the metrics that `png` will be given."""
        quality = self._page.axes[1]
        for axes in self._page.axes:
            for line in (*axes.lines,):
                line.remove()
            axes.relim()
            axes.autoscale()
        _plot_steps(self._page, curve)
        quality.set_visible(False)
        self._canvas.draw()
        quality.set_visible(True)
        self._drawn = self._canvas.copy_from_bbox(self._page.bbox)

    def png(self, metrics: dict) -> bytes:
        _plot_quality(self._page, metrics)
        self._canvas.restore_region(self._drawn)
        self._page.draw_artist(self._page.axes[1])
        return _png_of(self._canvas)


def _plot_steps(page, curve: Mapping[str, list]) -> None:
    """What is known of a run after its last step."""
    loss, _, splats, rate = page.axes
    steps = curve["step"]
    loss.plot(steps, curve["loss"], color=COLORS[0], **_style(steps))
    splats.plot(steps, [n / 1000 for n in curve["splats"]], color=COLORS[0], **_style(steps))
    # steps that were made before times were kept have none
    seconds = np.array(curve.get("seconds") or [None] * len(steps), float)
    rate.plot(*_speed(np.array(steps), seconds), color=COLORS[0], linewidth=1.2)
    splats.set_ylim(bottom=0)
    rate.set_ylim(bottom=0)


def _plot_quality(page, metrics: dict) -> None:
    """What is known after its last measurement."""
    quality, curve = page.axes[1], metrics["curve"]
    style = _style(curve["step"])
    label = "training views, mean of a batch"
    quality.plot(curve["step"], curve["psnr"], color=COLORS[1], label=label, **style)
    for measured, color, label in (
        (metrics.get("validation", {}).get("looks"), COLORS[2], "held-back photographs"),
        (metrics["evaluations"], COLORS[0], "held-out views"),
    ):
        if measured:
            at, psnrs = ([each[name] for each in measured] for name in ("step", "psnr"))
            quality.plot(at, psnrs, color=color, linestyle="--", marker="o", label=label)
    quality.legend(loc="lower right")


def _style(steps: list) -> dict:
    """Of a curve of batches."""
    return dict(linewidth=1.2, **(dict(marker=".", markersize=4) if len(steps) < 40 else {}))


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
