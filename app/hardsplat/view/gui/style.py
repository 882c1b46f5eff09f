"""How the interface looks: colours, roundings, fonts."""

from __future__ import annotations

from pathlib import Path

from slimgui import imgui, implot

SIZE = 15.0  # px of text at 96 dpi
SIDE = 336.0  # px of the panel at 96 dpi

Color = tuple[float, float, float, float]


def rgb(code: int, alpha: float = 1.0) -> Color:
    """A colour from 0xRRGGBB."""
    return (code >> 16 & 255) / 255, (code >> 8 & 255) / 255, (code & 255) / 255, alpha


TEXT, FAINT, ACCENT = rgb(0xE7E9EE), rgb(0x8D94A3), rgb(0x4C9FF0)
GROUND, RAISED, EDGE = rgb(0x15171C), rgb(0x262A33), rgb(0x343A46)
ORANGE, RED = rgb(0xF0A04C), rgb(0xD9534F)

_COLORS = {
    "TEXT": TEXT,
    "TEXT_DISABLED": FAINT,
    "WINDOW_BG": rgb(0x15171C, 0.97),
    "CHILD_BG": rgb(0x15171C, 0.0),
    "POPUP_BG": rgb(0x1B1E25, 0.98),
    "BORDER": rgb(0x2B303A),
    "FRAME_BG": RAISED,
    "FRAME_BG_HOVERED": rgb(0x303541),
    "FRAME_BG_ACTIVE": rgb(0x3A404D),
    "TITLE_BG": GROUND,
    "TITLE_BG_ACTIVE": GROUND,
    "SCROLLBAR_BG": rgb(0x15171C, 0.0),
    "SCROLLBAR_GRAB": EDGE,
    "SCROLLBAR_GRAB_HOVERED": rgb(0x454C5A),
    "SCROLLBAR_GRAB_ACTIVE": rgb(0x566072),
    "CHECK_MARK": ACCENT,
    "SLIDER_GRAB": rgb(0x4C9FF0, 0.85),
    "SLIDER_GRAB_ACTIVE": ACCENT,
    "BUTTON": rgb(0x2D323D),
    "BUTTON_HOVERED": rgb(0x3A414F),
    "BUTTON_ACTIVE": rgb(0x4A5365),
    "HEADER": rgb(0x4C9FF0, 0.22),
    "HEADER_HOVERED": rgb(0x4C9FF0, 0.32),
    "HEADER_ACTIVE": rgb(0x4C9FF0, 0.45),
    "SEPARATOR": rgb(0x2B303A),
    "TAB": rgb(0x15171C, 0.0),
    "TAB_HOVERED": rgb(0x303541),
    "TAB_SELECTED": rgb(0x2D323D),
    "TAB_SELECTED_OVERLINE": ACCENT,
    "TEXT_SELECTED_BG": rgb(0x4C9FF0, 0.35),
    "PLOT_LINES": ACCENT,
    "MODAL_WINDOW_DIM_BG": rgb(0x000000, 0.45),
    "NAV_CURSOR": rgb(0x4C9FF0, 0.0),
}
_SIZES = {
    "window_padding": (14.0, 12.0),
    "frame_padding": (9.0, 5.0),
    "item_spacing": (8.0, 7.0),
    "item_inner_spacing": (7.0, 5.0),
    "window_rounding": 0.0,
    "child_rounding": 6.0,
    "frame_rounding": 5.0,
    "popup_rounding": 7.0,
    "grab_rounding": 5.0,
    "tab_rounding": 5.0,
    "scrollbar_rounding": 6.0,
    "scrollbar_size": 11.0,
    "grab_min_size": 12.0,
    "window_border_size": 0.0,
    "child_border_size": 0.0,
    "popup_border_size": 1.0,
    "frame_border_size": 0.0,
    "tab_bar_border_size": 0.0,
    "separator_text_border_size": 1.0,
    "separator_text_padding": (0.0, 6.0),
}


def apply(scale: float) -> None:
    """Sets the look of the present contexts. scale: px of the screen for one at 96 dpi."""
    look = imgui.get_style()
    for name, color in _COLORS.items():
        look.colors[getattr(imgui.Col, name)] = color
    for name, size in _SIZES.items():
        setattr(look, name, size)
    look.scale_all_sizes(scale)
    import matplotlib  # takes a while

    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    imgui.get_io().fonts.add_font_from_memory_ttf(file.read_bytes(), SIZE * scale)
    plots = implot.get_style()
    for name, color in (("FRAME_BG", RAISED), ("PLOT_BG", rgb(0x1B1E25)), ("AXIS_GRID", EDGE)):
        plots.colors[getattr(implot.Col, name)] = color
