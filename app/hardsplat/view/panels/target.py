"""The render target: its format and blending."""

from __future__ import annotations

from hardsplat.tables.hardware import BLENDINGS
from hardsplat.view.gui import widgets
from hardsplat.view.gui.ui import Ui

SHOWN = ("unorm8", "unorm16", "float16", "float32")


def draw(ui: Ui) -> None:
    i, rows = ui.inputs, ui.facts.rows
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
    if widgets.buttons("As trained"):
        i.tune(format=None, blending=None)
