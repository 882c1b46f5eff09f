"""The cameras of photographs: thumbnails to jump to, the photograph over the splats, frustums."""

from __future__ import annotations

from slimgui import imgui

from hardsplat import contract
from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.ui import Ui
from hardsplat.view.splats.inputs import PHOTOS

COLUMNS = 3


def draw(ui: Ui) -> None:
    i = ui.inputs
    if pressed := widgets.segments("photo", i.photo, PHOTOS, columns=4):
        i.photo, i.share = pressed, 0.5 if pressed == "half over" else 1.0
        if i.point is None:
            i.hop(0)
        i.touch()
    if i.photo in ("half over", "over"):
        share = widgets.slider("photograph", i.share, 0.0, 1.0)
        if share is not None:
            i.share = share
            i.touch()
    _, i.frustums = imgui.checkbox("cameras in the scene", i.frustums)
    held = sum(point.held_out for point in i.points)
    widgets.heading(f"{len(i.points)} cameras" + f", {held} held out" * bool(held))
    imgui.begin_child("thumbnails", (0, 0))
    _grid(ui)
    imgui.end_child()


def _grid(ui: Ui) -> None:
    """Rows that are out of sight are left out."""
    i, space = ui.inputs, imgui.get_style().item_spacing
    width = (imgui.get_content_region_avail()[0] - space[0] * (COLUMNS - 1)) / COLUMNS
    height = width * ui.thumbnails.aspect
    line = height + widgets.em(1.0) + 2 * space[1]
    rows = -(-len(i.points) // COLUMNS)
    first = max(0, int(imgui.get_scroll_y() / line) - 1)
    last = min(rows, first + int(imgui.get_window_height() / line) + 3)
    begin = imgui.get_cursor_pos()
    ui.thumbnails.want(range(first * COLUMNS, min(last * COLUMNS, len(i.points))))
    for number in range(first * COLUMNS, min(last * COLUMNS, len(i.points))):
        row, column = divmod(number, COLUMNS)
        imgui.set_cursor_pos((begin[0] + column * (width + space[0]), begin[1] + row * line))
        if _thumbnail(ui, number, width, height):
            i.go(number)
    imgui.set_cursor_pos((begin[0], begin[1] + rows * line))
    imgui.dummy((1, 1))


def _thumbnail(ui: Ui, number: int, width: float, height: float) -> bool:
    point, chosen = ui.inputs.points[number], ui.inputs.point == number
    pressed = imgui.invisible_button(f"camera {number}", (width, height + widgets.em(1.1)))
    hovered = imgui.is_item_hovered()
    widgets.placed(f"camera {number}")
    widgets.hint(point.name + " (held out)" * point.held_out)
    lines = imgui.get_window_draw_list()
    left, top = imgui.get_item_rect_min()
    right, bottom = left + width, top + height
    pack = imgui.color_convert_float4_to_u32
    lines.add_rect_filled((left, top), (right, bottom), pack(style.RAISED), 4.0)
    if (place := ui.thumbnails.place(number)) is not None:
        texture = contract.CONSTANTS["FILLED_THUMBS"]
        lines.add_image(texture, (left, top), (right, bottom), place[:2], place[2:])
    if point.held_out:
        lines.add_rect_filled((left + 4, top + 4), (left + 12, top + 12), pack(style.ORANGE), 4.0)
    if chosen or hovered:
        color = style.ACCENT if chosen else style.FAINT
        lines.add_rect((left, top), (right, bottom), pack(color), 4.0, thickness=2.0)
    color = style.TEXT if chosen else style.FAINT
    text = point.name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    lines.push_clip_rect((left, bottom), (right, bottom + 2 * widgets.em(1.0)), True)
    lines.add_text((left + 1, bottom + 1), pack(color), text)
    lines.pop_clip_rect()
    return pressed
