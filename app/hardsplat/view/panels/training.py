"""A run: its curves and figures, and what it is to do."""

from __future__ import annotations

import numpy as np
from slimgui import imgui, implot

from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import TrainingFacts, Ui

MOST_POINTS = 400  # of a curve
HEIGHT = 9.0  # of a plot, heights of a character


def draw(ui: Ui) -> None:
    run = ui.facts.training
    if run is None:
        return
    done = f"step {run.step:,} of {run.steps:,}"
    imgui.push_style_color(imgui.Col.PLOT_HISTOGRAM, (*style.ACCENT[:3], 0.6))
    imgui.progress_bar(run.step / max(run.steps, 1), (-1, widgets.em(1.5)), done)
    imgui.pop_style_color()
    _buttons(ui, run)
    imgui.dummy((0, widgets.em(0.2)))
    _figures(ui, run)
    if not ui.fits:
        widgets.heading("Loss of training views")
        _curve("loss", [("loss", run.losses, style.ACCENT)])
    widgets.heading("PSNR, dB")
    curves = [("image" if ui.fits else "training views", run.psnrs, style.ACCENT)]
    if len(run.held_out):
        curves.append(("held out", run.held_out, style.ORANGE))
    _curve("psnr", curves)


def _buttons(ui: Ui, run: TrainingFacts) -> None:
    i, ended = ui.inputs, ["Pause", "One step", "Save now", "Stop and save"] * run.done
    pause = "Resume" if i.paused else "Pause"
    pressed = widgets.buttons(pause, "One step", disabled=[*ended, *["Resume"] * run.done])
    if pressed == "One step":
        i.step()
    elif pressed:
        i.pause()
    names = ["Save now"] * (not ui.fits) + ["Stop and save"]
    pressed = widgets.buttons(*names, colors={"Stop and save": style.RED}, disabled=ended)
    if pressed == "Save now":
        ui.asked.add("save")
    elif pressed:
        imgui.open_popup("Stop?")
    widgets.hint("Ends the training here, as after its last step")
    if imgui.begin_popup("Stop?"):
        imgui.text("End it here?")
        imgui.dummy((widgets.em(12), 0))  # the width that buttons share
        choice = widgets.buttons("Go on", "Stop", colors={"Stop": style.RED})
        if choice == "Stop":
            ui.asked.add("stop")
        if choice:
            imgui.close_current_popup()
        imgui.end_popup()


def _figures(ui: Ui, run: TrainingFacts) -> None:
    if not imgui.begin_table("figures", 3):
        return
    shown = {"pace": f"{widgets.digits(run.pace)} steps/s" if run.pace else "-"}
    shown["splats"] = f"{ui.facts.splats:,}"
    shown["time left"] = "done" if run.done else duration(run.left)
    shown["loss"] = "-" if run.loss is None else f"{run.loss:.4f}"
    held = f"{run.held_out[-1, 1]:.2f} dB" if len(run.held_out) else "-"
    shown["PSNR"] = "-" if run.psnr is None else f"{run.psnr:.2f} dB"
    shown["held out"] = held
    shown["memory"] = f"{run.memory / 2**30:.2f} GiB"
    shown["picture"] = f"{widgets.digits(ui.facts.picture_ms)} ms"
    if ui.fits:
        for name in ("splats", "loss", "held out", "picture"):
            del shown[name]
    for name, value in shown.items():
        widgets.figure(name, value)
    imgui.end_table()


def duration(seconds: float | None) -> str:
    """For people; "-" where it is not known."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def thinned(points: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """(N, 2) step and value, the means of neighbours where there are more."""
    if len(points) <= most:
        return points
    ends = np.linspace(0, len(points), most + 1).astype(int)
    sums = np.add.reduceat(points, ends[:-1])
    return sums / np.diff(ends)[:, None]


def _curve(name: str, curves: list[tuple[str, np.ndarray, style.Color]]) -> None:
    flags = implot.PlotFlags
    bare = flags.NO_MENUS | flags.NO_BOX_SELECT | flags.NO_MOUSE_TEXT
    if len(curves) == 1:
        bare |= flags.NO_LEGEND
    if not implot.begin_plot(f"##{name}", (-1, widgets.em(HEIGHT)), bare):
        return
    axis = implot.AxisFlags
    fit = axis.AUTO_FIT | axis.NO_LABEL | axis.NO_HIGHLIGHT
    implot.setup_axes(None, None, fit, fit)
    implot.setup_legend(implot.Location.SOUTH_EAST)
    for label, points, color in curves:
        rows = thinned(points)
        across, up = (np.ascontiguousarray(rows[:, k], np.float64) for k in (0, 1))
        if len(rows):
            few = len(rows) < 40 and label == "held out"
            marker = implot.Marker.CIRCLE if few else implot.Marker.NONE
            look = implot.PlotSpec(
                line_color=color, line_weight=1.6, marker=marker, marker_size=3.0,
                marker_fill_color=color, marker_line_color=color,
            )  # fmt: skip
            implot.plot_line(label, across, up, look)
    implot.end_plot()
