"""Widgets as all panels have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from slimgui import imgui

from hardsplat.view.gui import style

NONE: Mapping[str, style.Color] = MappingProxyType({})
FIXED = (
    imgui.WindowFlags.NO_TITLE_BAR | imgui.WindowFlags.NO_RESIZE | imgui.WindowFlags.NO_MOVE
)  # of windows within the window
LABEL = 104.0  # px of the column of names at 96 dpi
VALUE = 4.0  # heights of a character for the number behind a slider
# the middle of buttons by their text, px, where they were drawn last: tests and tools press them
PLACES: dict[str, tuple[float, float]] = {}


def em(count: float) -> float:
    """Pixels of so many heights of a character."""
    return count * imgui.get_font_size()


def digits(value: float) -> str:
    """Three digits, and all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def label(text: str) -> None:
    """The name of the widget that comes next, which takes the rest of the line."""
    imgui.align_text_to_frame_padding()
    imgui.text_colored(style.FAINT, text)
    imgui.same_line(em(LABEL / style.SIZE))
    imgui.set_next_item_width(-1)


def heading(text: str) -> None:
    imgui.dummy((0, em(0.15)))
    imgui.push_style_color(imgui.Col.TEXT, style.FAINT)
    imgui.separator_text(text)
    imgui.pop_style_color()


def faint(text: str) -> None:
    """A remark, as wide as the panel."""
    imgui.push_style_color(imgui.Col.TEXT, style.FAINT)
    imgui.text_wrapped(text)
    imgui.pop_style_color()


def slider(
    name: str,
    value: float,
    low: float,
    high: float,
    format: str | None = "{:.2f}",
    log: bool = False,
) -> float | None:
    """The value that was chosen now. format: None for `digits`."""
    label(name)
    imgui.set_next_item_width(-em(VALUE))
    imgui.push_style_var(imgui.StyleVar.FRAME_PADDING, (em(0.4), em(0.1)))
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + em(0.2))
    flags = imgui.SliderFlags.LOGARITHMIC if log else imgui.SliderFlags.NONE
    flags |= imgui.SliderFlags.NO_INPUT
    changed, value = imgui.slider_float(f"##{name}", value, low, high, " ", flags)
    imgui.pop_style_var()
    imgui.same_line()
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - em(0.03))
    imgui.align_text_to_frame_padding()
    imgui.text(format.format(value) if format else digits(value))
    return value if changed else None


def segments(
    name: str, chosen: str, items: Sequence[str], columns: int = 3, small: bool = False
) -> str | None:
    """Buttons of which one is down; the one that was pressed now. small: with little around their
    names."""
    across = em(0.1) if small else imgui.get_style().frame_padding[0]
    imgui.push_style_var_x(imgui.StyleVar.FRAME_PADDING, across)
    space = imgui.get_style().item_spacing[0] / 2
    width = (imgui.get_content_region_avail()[0] - space * (columns - 1)) / columns
    pressed = None
    for number, item in enumerate(items):
        if number % columns:
            imgui.same_line(0, space)
        if toggle(f"{item}##{name}", item == chosen, width):
            pressed = item
    imgui.pop_style_var()
    return pressed


def flow(text: str, width: float) -> None:
    """Begins a button of the same line, or of the next where a window of that width ends before."""
    style = imgui.get_style()
    takes = style.item_spacing[0] + imgui.calc_text_size(text)[0] + 2 * style.frame_padding[0]
    if imgui.get_item_rect_max()[0] + takes < width:
        imgui.same_line()


def toggle(text: str, down: bool, width: float = 0.0) -> bool:
    """A button that is lit while it is down; whether it was pressed now."""
    if down:
        imgui.push_style_color(imgui.Col.BUTTON, style.rgb(0x4C9FF0, 0.55))
        imgui.push_style_color(imgui.Col.BUTTON_HOVERED, style.rgb(0x4C9FF0, 0.7))
    pressed = imgui.button(text, (width, 0))
    placed(text)
    if down:
        imgui.pop_style_color(2)
    return pressed


def buttons(
    *names: str, colors: Mapping[str, style.Color] = NONE, disabled: Sequence[str] = ()
) -> str:
    """Buttons that share the line; the one that was pressed now, else ""."""
    space = imgui.get_style().item_spacing[0]
    width = (imgui.get_content_region_avail()[0] - space * (len(names) - 1)) / len(names)
    pressed = ""
    for number, name in enumerate(names):
        if number:
            imgui.same_line()
        imgui.begin_disabled(name in disabled)
        if color := colors.get(name):
            imgui.push_style_color(imgui.Col.BUTTON, (*color[:3], 0.75))
            imgui.push_style_color(imgui.Col.BUTTON_HOVERED, (*color[:3], 0.9))
            imgui.push_style_color(imgui.Col.BUTTON_ACTIVE, color)
        if imgui.button(name, (width, 0)):
            pressed = name
        placed(name)
        if color:
            imgui.pop_style_color(3)
        imgui.end_disabled()
    return pressed


def figure(name: str, value: str) -> None:
    """A number under its name, in a cell of a table."""
    imgui.table_next_column()
    imgui.text_colored(style.FAINT, name)
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - em(0.35))
    imgui.text(value)
    imgui.dummy((0, em(0.1)))


def placed(text: str) -> None:
    """Remembers where the button before is."""
    (left, top), (right, bottom) = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    PLACES[text.partition("##")[0]] = (left + right) / 2, (top + bottom) / 2


def hint(text: str) -> None:
    """What the widget before does, while the mouse rests on it."""
    imgui.set_item_tooltip(text)
