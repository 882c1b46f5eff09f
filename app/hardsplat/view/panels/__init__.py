"""The panels at the side of the window, a module and a row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slimgui import imgui

from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import Ui
from hardsplat.view.panels import cameras, editing, picture, target, training


@dataclass(frozen=True)
class Panel:
    """draw: its widgets. wanted: whether this window has it."""

    title: str
    draw: Callable[[Ui], None]
    wanted: Callable[[Ui], bool] = lambda ui: True


PANELS = (
    Panel("Run", training.draw, lambda ui: ui.facts.training is not None),
    Panel("Picture", picture.draw, lambda ui: not ui.fits),
    Panel("Cameras", cameras.draw, lambda ui: bool(ui.inputs.points)),
    Panel("Edit", editing.draw, lambda ui: "edit" in ui.inputs.parts),
    Panel("Target", target.draw, lambda ui: not ui.fits),
)


def draw(ui: Ui) -> None:
    """The heads of all panels that this window has, and the open one."""
    wanted = [panel for panel in PANELS if panel.wanted(ui)]
    ui.panel = ui.panel or wanted[0].title
    space = imgui.get_style().item_spacing[0] / 2
    width = (imgui.get_content_region_avail()[0] - space * (len(wanted) - 1)) / len(wanted)
    imgui.push_style_var(imgui.StyleVar.FRAME_PADDING, (2.0, widgets.em(0.4)))
    for number, panel in enumerate(wanted):
        if number:
            imgui.same_line(0, space)
        if _tab(panel.title, panel.title == ui.panel, width):
            ui.panel = panel.title
    imgui.pop_style_var()
    imgui.dummy((0, widgets.em(0.1)))
    imgui.begin_child("panel", (0, 0))
    for panel in wanted:
        if panel.title == ui.panel:
            panel.draw(ui)
    imgui.end_child()


def _tab(title: str, open: bool, width: float) -> bool:
    """The head of a panel; whether it was pressed now."""
    imgui.push_style_color(imgui.Col.BUTTON, style.RAISED if open else style.rgb(0, 0.0))
    imgui.push_style_color(imgui.Col.TEXT, style.TEXT if open else style.FAINT)
    pressed = imgui.button(title, (width, 0))
    widgets.placed(title)
    imgui.pop_style_color(2)
    if open:
        (left, _), (right, bottom) = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        color = imgui.color_convert_float4_to_u32(style.ACCENT)
        imgui.get_window_draw_list().add_line((left + 8, bottom), (right - 8, bottom), color, 2.0)
    return pressed
