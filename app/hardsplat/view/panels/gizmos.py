"""What is dragged and clicked within the scene: arrows at marked points, and the world's axes."""

from __future__ import annotations

import numpy as np
from slimgui import imgui

from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import Ui
from hardsplat.view.splats.editing import EditInputs

COLORS = style.rgb(0xE5645C), style.rgb(0x6CC46B), style.rgb(0x5C9CF0)
SIDE = 6.4  # of the axes' square, heights of a character
pack = imgui.color_convert_float4_to_u32


def arrows(i: EditInputs) -> None:
    """Arrows along x, y and z at each mark, which drag it."""
    lines, shown = imgui.get_background_draw_list(), i.arrows()
    held = i.held or i.under(i.cursor, shown)
    for arrow in shown:
        on = held is not None and (held.mark, held.axis) == (arrow.mark, arrow.axis)
        color = pack(style.TEXT if on else COLORS[arrow.axis])
        tip, way = np.array(arrow.tip), np.array(arrow.tip) - arrow.foot
        way = way / max(float(np.linalg.norm(way)), 1e-6) * widgets.em(0.75)
        side = 0.42 * np.array([-way[1], way[0]])
        lines.add_line(arrow.foot, arrow.tip, color, 2.4 if on else 1.8)
        a, b, c = (tuple(p.tolist()) for p in (tip + way, tip + side, tip - side))
        lines.add_triangle_filled(a, b, c, color)


def axes(ui: Ui, region: tuple[int, int]) -> None:
    """The world's axes as the camera sees them, at the upper right; a click looks along one."""
    i, side = ui.inputs, widgets.em(SIDE)
    rotation, half = i.controls.rotation, widgets.em(SIDE) / 2
    corner = np.array([region[0] - side - widgets.em(0.8), widgets.em(0.8)])
    middle, radius, reach = corner + half, widgets.em(0.62), half - widgets.em(0.7)
    flags = imgui.WindowFlags
    fixed = flags.NO_TITLE_BAR | flags.NO_RESIZE | flags.NO_MOVE | flags.NO_BACKGROUND
    imgui.set_next_window_pos(tuple(corner.tolist()))
    imgui.set_next_window_size((side, side))
    imgui.push_style_var(imgui.StyleVar.WINDOW_PADDING, (0, 0))
    imgui.begin("axes", flags=fixed | flags.NO_SCROLLBAR | flags.NO_FOCUS_ON_APPEARING)
    lines = imgui.get_window_draw_list()
    ends = [(k, sign, sign * rotation[:, k]) for k in range(3) for sign in (1, -1)]
    for k, sign, (x, y, away) in sorted(ends, key=lambda end: -end[2][2]):
        place = tuple((middle + reach * np.array([x, y])).tolist())
        name, color = "xyz"[k], COLORS[k]
        imgui.set_cursor_screen_pos((place[0] - radius, place[1] - radius))
        pressed = imgui.invisible_button(f"{name}{sign}", (2 * radius, 2 * radius))
        lit = imgui.is_item_hovered()
        widgets.hint(f"Look along {'-' * (sign < 0)}{name}")
        color = style.TEXT if lit else (*color[:3], 1.0 if away < 0.3 else 0.6)
        if sign > 0:
            lines.add_line(tuple(middle.tolist()), place, pack(color), 1.8)
            lines.add_circle_filled(place, radius, pack(color))
            width, height = imgui.calc_text_size(name)
            where = place[0] - width / 2, place[1] - height / 2
            lines.add_text(where, pack(style.GROUND), name)
        else:
            lines.add_circle_filled(place, 0.8 * radius, pack((*style.GROUND[:3], 0.6)))
            lines.add_circle(place, 0.8 * radius, pack(color), thickness=1.4)
        if pressed:
            i.face(-sign * np.eye(3)[k])
    imgui.end()
    imgui.pop_style_var()
