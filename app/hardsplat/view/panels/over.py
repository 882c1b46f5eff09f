"""What the window shows of the splats, and what lies over them: photograph, cameras, toolbar,
legend, figures, keys."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from slimgui import imgui

from hardsplat import contract
from hardsplat.edit.editor import MARKS
from hardsplat.model.camera import Camera
from hardsplat.tables.keys import rows
from hardsplat.tables.pictures import PICTURES
from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.canvas import EMPTY
from hardsplat.view.gui.ui import Shown, Ui
from hardsplat.view.splats.editing import EditInputs
from hardsplat.view.splats.inputs import DRAWN_AS

COLORS = style.rgb(0xE5645C), style.rgb(0x6CC46B), style.rgb(0x5C9CF0)
SIDE = 6.4  # of the axes' square, heights of a character
pack = imgui.color_convert_float4_to_u32
PHOTO, ERROR = (contract.CONSTANTS[f"FILLED_{name}"] for name in ("PHOTO", "ERROR"))
UNITS = {"depth": "world units", "median": "world units", "count": "splats"}
OUTSIDE = 0.6  # how dark what a photograph beside does not show becomes
MOST_FRUSTUMS = 300
REACH = 0.06  # length of a frustum, of the distance of the pivot
SMALLEST = 240.0  # px at 96 dpi of what has room for text
BUTTONS = 32.0  # of the toolbar, heights of a character
ROOMY = 51.0  # the same, of what has room for axes beside it
LEGEND = 220.0  # px of the palette at 96 dpi
_FLAGS = imgui.WindowFlags
_FLOATING = widgets.FIXED | _FLAGS.ALWAYS_AUTO_RESIZE | _FLAGS.NO_FOCUS_ON_APPEARING
_UNSCROLLED = _FLAGS.NO_SCROLLBAR | _FLAGS.NO_SCROLL_WITH_MOUSE


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
    bare = flags.NO_BACKGROUND | flags.NO_SCROLLBAR | flags.NO_FOCUS_ON_APPEARING
    imgui.set_next_window_pos(tuple(corner.tolist()))
    imgui.set_next_window_size((side, side))
    imgui.push_style_var(imgui.StyleVar.WINDOW_PADDING, (0, 0))
    imgui.begin("axes", flags=widgets.FIXED | bare)
    lines = imgui.get_window_draw_list()
    ends = [(k, sign, sign * rotation[:, k]) for k in range(3) for sign in (1, -1)]
    for k, sign, (x, y, away) in sorted(ends, key=lambda end: -end[2][2]):
        place = tuple((middle + reach * np.array([x, y])).tolist())
        name, color = "xyz"[k], COLORS[k]
        imgui.set_cursor_screen_pos((place[0] - radius, place[1] - radius))
        pressed = imgui.invisible_button(f"{name}{sign}", (2 * radius, 2 * radius))
        lit = imgui.is_item_hovered()
        widgets.hint(f"Look from {'-' * (sign < 0)}{name}")
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


def draw(ui: Ui, region: tuple[int, int], shown: Shown) -> float:
    """What lies over the splats; px that the toolbar takes at the top."""
    _picture(ui, shown)
    lines = imgui.get_background_draw_list()
    lines.push_clip_rect((0, 0), shown.render)  # not over a photograph beside the splats
    if ui.inputs.frustums:
        _frustums(ui)
    _edit(ui)
    lines.pop_clip_rect()
    if min(region) < SMALLEST * ui.scale:
        return 0.0
    bar = _toolbar(ui, region)
    if region[0] > widgets.em(ROOMY):
        axes(ui, region)
    if ui.inputs.numbers and (ui.inputs.room or not ui.side):
        _figures(ui, region)
    _legend(ui, region)
    _note(ui, region)
    if ui.inputs.help:
        _help(ui, region)
    return bar


def _picture(ui: Ui, shown: Shown) -> None:
    """The splats are there already."""
    lines, (width, height) = imgui.get_background_draw_list(), shown.render
    if shown.frame[2]:
        x, y, w, h = shown.frame
        dark = pack((EMPTY, EMPTY, EMPTY, OUTSIDE))
        for a, b in (
            ((0, 0), (width, y)),
            ((0, y + h), (width, height)),
            ((0, y), (x, y + h)),
            ((x + w, y), (width, y + h)),
        ):
            lines.add_rect_filled(a, b, dark)
    x, y, w, h = shown.photo
    if w and shown.picture == "error":
        lines.add_image(ERROR, (x, y), (x + w, y + h))
    elif w:
        share = 1.0 if shown.frame[2] else ui.inputs.share
        lines.add_image(PHOTO, (x, y), (x + w, y + h), col=pack((1.0, 1.0, 1.0, share)))


def _edit(ui: Ui) -> None:
    """Marks, the brush under the mouse, and a rectangle in the making."""
    i, lines = ui.inputs, imgui.get_background_draw_list()
    if not isinstance(i, EditInputs):
        return
    camera, color = i.controls.camera(*i.window), pack(style.ORANGE)
    places, depths = camera.projected(np.reshape(i.editor.marks, (-1, 3)))
    for name, (x, y), depth in zip(MARKS, places.tolist(), depths):
        if depth > 0:
            lines.add_circle_filled((x, y), widgets.em(0.3), color)
            lines.add_circle((x, y), widgets.em(0.3), pack(style.GROUND), thickness=1.5)
            lines.add_text((x + widgets.em(0.5), y - widgets.em(0.6)), color, name)
    i.scale = ui.scale if ui.panel == "Edit" and ui.side else 0.0
    if i.scale and len(i.editor.marks) > 1:
        _box(i.editor.marks[0], i.editor.marks[1], camera)
    arrows(i)
    over = i.cursor[0] < i.window[0] and not imgui.get_io().want_capture_mouse
    if i.tool == "brush" and over:
        lines.add_circle(i.cursor, i.radius, color, thickness=1.5)
    if i.corner is not None:
        (x0, y0), (x1, y1) = i.corner, i.cursor
        low, high = (min(x0, x1), min(y0, y1)), (max(x0, x1), max(y0, y1))
        lines.add_rect_filled(low, high, pack((*style.ORANGE[:3], 0.15)))
        lines.add_rect(low, high, color, thickness=1.5)


def _box(a: np.ndarray, b: np.ndarray, camera: Camera) -> None:
    """The edges of the box with two marks in opposite corners, as far as they are in front."""
    lines, color = imgui.get_background_draw_list(), pack((*style.ORANGE[:3], 0.55))
    corners = np.array([[(a, b)[n >> k & 1][k] for k in range(3)] for n in range(8)])
    places, _ = camera.projected(corners)
    for n, k in ((n, k) for n in range(8) for k in range(3) if not n >> k & 1):
        ends = places[[n, n | 1 << k]]
        if np.isfinite(ends).all():
            lines.add_line(tuple(ends[0].tolist()), tuple(ends[1].tolist()), color, 1.2)


def _frustums(ui: Ui) -> None:
    i = ui.inputs
    camera, lines = i.controls.camera(*i.window), imgui.get_background_draw_list()
    chosen = np.unique(np.linspace(0, len(i.points) - 1, MOST_FRUSTUMS).astype(int))
    for number in chosen:
        point = i.points[number]
        corners = frustum(point.camera, REACH * i.controls.distance)
        places, depths = camera.projected(corners)
        if number == i.point or (depths < 1e-3 * i.controls.distance).any():
            continue
        color = pack((*(style.ORANGE if point.held_out else style.ACCENT)[:3], 0.9))
        tip, *base = (tuple(place) for place in places.tolist())
        for a, b in zip(base, base[1:] + base[:1]):
            lines.add_line(tip, a, color, 1.2)
            lines.add_line(a, b, color, 1.2)


def frustum(camera: Camera, reach: float) -> np.ndarray:
    """(5, 3): the position of a camera, and the corners of its image that far ahead, world
    units."""
    size = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * [camera.width, camera.height]
    rays = np.column_stack([size, np.ones(4)]) @ np.linalg.inv(camera.K).T
    rotation = camera.w2c[:3, :3]
    return np.concatenate([[camera.position], camera.position + reach * rays @ rotation])


def _begin(
    name: str,
    place: tuple[float, float],
    pivot: tuple[float, float] = (0, 0),
    opaque: float = 0.82,
    scrolls: bool = False,
) -> None:
    imgui.set_next_window_pos(place, pivot=pivot)
    imgui.set_next_window_bg_alpha(opaque)
    imgui.push_style_var(imgui.StyleVar.WINDOW_ROUNDING, widgets.em(0.55))
    imgui.push_style_var(imgui.StyleVar.WINDOW_PADDING, (widgets.em(0.6), widgets.em(0.45)))
    imgui.begin(name, flags=_FLOATING if scrolls else _FLOATING | _UNSCROLLED)


def _end() -> None:
    imgui.end()
    imgui.pop_style_var(2)


def _toolbar(ui: Ui, region: tuple[int, int]) -> float:
    """Px that it takes at the top."""
    i, gap = ui.inputs, widgets.em(0.8)
    _begin("toolbar", (gap, gap))
    if "opening" in i.parts:
        if widgets.toggle("Open", i.browsing):
            i.browse()
        widgets.hint("Another file or folder (Ctrl O); or drop one on the window")
        imgui.same_line()
    if i.points:
        _cameras(ui, min(widgets.em(12), region[0] - widgets.em(BUTTONS)))
        imgui.same_line()
    if widgets.toggle("Panels", ui.side > 0):
        i.switch()
        i.touch()
    widgets.hint("Panels on and off (Tab)")
    save, fill = "Save picture", "Full screen"
    if region[0] < widgets.em(BUTTONS):
        save, fill = "Save", "Full"
    for text, down, name, note in (
        (save, i.capturing, "capturing", "A picture of the splats as they are shown (P)"),
        (fill, i.full, "full", "Full screen on and off (F)"),
        (" ? ", i.help, "help", "Mouse and keys (H)"),
    ):
        widgets.flow(text, region[0] - 1.5 * gap)
        if widgets.toggle(text, down):
            i.toggle(name)
            i.touch()
        widgets.hint(note)
    bottom = imgui.get_window_pos()[1] + imgui.get_window_size()[1]
    _end()
    return bottom + gap


def _cameras(ui: Ui, width: float) -> None:
    """width: px that a list of all of them has; a narrow window has none."""
    i = ui.inputs
    if imgui.arrow_button("previous", imgui.Dir.LEFT):
        i.hop(-1)
    widgets.hint("Previous camera (arrow left)")
    if width > widgets.em(5):
        imgui.same_line(0, widgets.em(0.3))
        imgui.set_next_item_width(width)
        name = i.points[i.point].name if i.point is not None else "free view"
        if imgui.begin_combo("##camera", name):
            for number, point in enumerate(i.points):
                text = point.name + "  (held out)" * point.held_out
                if imgui.selectable(f"{text}##{number}", number == i.point)[0]:
                    i.go(number)
            imgui.end_combo()
    imgui.same_line(0, widgets.em(0.3))
    if imgui.arrow_button("next", imgui.Dir.RIGHT):
        i.hop(1)
    widgets.hint("Next camera (arrow right)")


def _figures(ui: Ui, region: tuple[int, int]) -> None:
    facts, gap = ui.facts, widgets.em(0.8)
    total = f" of {facts.total:,}" * bool(facts.total)
    parts = [f"{facts.splats:,}{total} splats" + ", loading" * facts.loading]
    if facts.picture_ms:
        parts.append(f"{widgets.digits(facts.picture_ms)} ms")
    parts += [str(facts.rows[name]) for name in ("format", "blending") if name in facts.rows]
    parts.append(f"{region[0]} x {region[1]}")
    while imgui.calc_text_size("   ".join(parts))[0] > region[0] - 4 * gap:
        parts.pop()
    _begin("figures", (gap, region[1] - gap), (0, 1))
    imgui.text_colored(style.FAINT, "   ".join(parts))
    _end()


@lru_cache
def _palette(name: str, steps: int) -> list[int]:
    from matplotlib import colormaps  # takes a while

    return [pack(tuple(color)) for color in colormaps[name](np.linspace(0, 1, steps)).tolist()]


def _legend(ui: Ui, region: tuple[int, int]) -> None:
    picture = DRAWN_AS.get(ui.inputs.picture, ui.inputs.picture)
    row, span = PICTURES[picture], ui.facts.span
    if not row.numbers or span is None:
        return
    gap, width = widgets.em(0.8), LEGEND * ui.scale
    _begin("legend", (region[0] - gap, region[1] - gap), (1, 1))
    lines, (x, y) = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    colors, height = _palette(row.palette, 33), widgets.em(0.7)
    for number, (a, b) in enumerate(pairwise(colors)):
        left, right = (x + width * n / 32 for n in (number, number + 1))
        lines.add_rect_filled_multi_color((left, y), (right, y + height), a, b, b, a)
    imgui.dummy((width, height))
    low, high = map(widgets.digits, span)
    imgui.text(low)
    unit = UNITS.get(picture, "")
    imgui.same_line((width - imgui.calc_text_size(unit)[0]) / 2 + widgets.em(0.6))
    imgui.text_colored(style.FAINT, unit)
    imgui.same_line(width - imgui.calc_text_size(high)[0] + widgets.em(0.6))
    imgui.text(high)
    _end()


def _note(ui: Ui, region: tuple[int, int]) -> None:
    note = ui.inputs.noted() or ("paused" if ui.inputs.paused else "")
    if not note:
        return
    _begin("note", (region[0] / 2, region[1] - widgets.em(4.0)), (0.5, 1))
    imgui.push_text_wrap_pos(0.8 * region[0])
    imgui.text(note)
    imgui.pop_text_wrap_pos()
    _end()


def _help(ui: Ui, region: tuple[int, int]) -> None:
    i = ui.inputs
    width, height, gap = region[0] + ui.side, region[1], widgets.em(1.6)
    imgui.set_next_window_size_constraints((0, 0), (width - gap, height - gap))
    _begin("help", (width / 2, height / 2), (0.5, 0.5), opaque=0.95, scrolls=True)
    if imgui.begin_table("keys", 2, imgui.TableFlags.SIZING_FIXED_FIT):
        for row in rows(*i.parts, *["training"] * i.can_pause):
            imgui.table_next_row()
            imgui.table_next_column()
            imgui.text_colored(style.ACCENT, row.keys)
            imgui.table_next_column()
            imgui.text(row.note)
        imgui.end_table()
    _end()
