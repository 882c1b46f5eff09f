"""The render target: its format and blending, how exact that is, and where the time goes."""

from __future__ import annotations

import math

from slimgui import imgui

from hardsplat.tables.hardware import BLENDINGS
from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import Ui

COMPARE = "show it in place of the picture"
SHOWN = ("unorm8", "unorm16", "float16", "float32")
# stages of a picture by the beginnings of the names of their passes, in this order
STAGES = {
    "project": ("sizes", "project"),
    "sort": ("sort",),
    "lists": ("list",),
    "draw": ("begin", "draw", "resolve"),
    "show": ("show", "copy"),
}


def draw(ui: Ui) -> None:
    i, t, rows = ui.inputs, ui.inputs.tuning, ui.facts.rows
    widgets.heading("Format of the render target")
    if pressed := widgets.segments("format", str(rows.get("format", "")), SHOWN, columns=2):
        i.tune(format=pressed)
    widgets.heading("Blending")
    if pressed := widgets.segments(
        "blending", str(rows.get("blending", "")), list(BLENDINGS), small=True
    ):
        i.tune(blending=pressed)
    if blending := BLENDINGS.get(str(rows.get("blending", ""))):
        widgets.faint(f"{blending.note[:1].upper()}{blending.note[1:]}.")
    widgets.heading("Difference to float32")
    changed, compared = imgui.checkbox(COMPARE, t.compared)
    widgets.placed(COMPARE)
    if changed:
        i.tune(compared=compared)
    _difference(ui)
    widgets.heading("Milliseconds a picture")
    _stages(ui)
    if widgets.buttons("As trained"):
        i.tune(format=None, blending=None, compared=False)


def _difference(ui: Ui) -> None:
    found = ui.facts.difference
    if not ui.inputs.tuning.compared:
        widgets.faint("Also measures PSNR, while the camera rests.")
    elif ui.inputs.picture != "image":
        widgets.faint("Of the picture 'image' alone.")
    elif found is None:
        widgets.faint("measuring ...")
    else:
        psnr = "exact" if math.isinf(found.psnr) else f"{found.psnr:.1f} dB"
        if imgui.begin_table("difference", 2):
            widgets.figure("PSNR", psnr)
            widgets.figure("largest", f"{255 * found.largest:.2g} of 255")
            imgui.end_table()
        widgets.faint(f"Shown {found.louder:.0f} times as bright.")


def grouped(stages: dict[str, float]) -> dict[str, float]:
    """Milliseconds by stage of milliseconds by pass."""
    out = dict.fromkeys([*STAGES, "other"], 0.0)
    for name, ms in stages.items():
        found = (s for s, starts in STAGES.items() if name.startswith(starts))
        out[next(found, "other")] += ms
    return {name: ms for name, ms in out.items() if ms}


def _stages(ui: Ui) -> None:
    """A bar for each stage, and its milliseconds."""
    stages = grouped(dict(ui.facts.stages))
    if not stages:
        widgets.faint("This device has no clock.")
    total = sum(stages.values())
    for name, ms in [*stages.items(), ("all", total)] if stages else []:
        widgets.label(name)
        imgui.push_style_color(imgui.Col.PLOT_HISTOGRAM, (*style.ACCENT[:3], 0.6))
        imgui.progress_bar(ms / max(total, 1e-9), (-1, 0), widgets.digits(ms))
        imgui.pop_style_color()
