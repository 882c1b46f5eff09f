"""The interface of a window, by Dear ImGui: events in, panels and what lies over the splats out, as
triangles. No GPU is needed for it."""

from __future__ import annotations

import ctypes
import math
import time
from typing import Any

import glfw
import numpy as np
from slimgui import imgui, implot

from hardsplat import contract
from hardsplat.view import panels
from hardsplat.view.gui import style, widgets
from hardsplat.view.gui.canvas import FIRST, GuiFrame
from hardsplat.view.gui.ui import Shown, Ui, ViewerFacts
from hardsplat.view.panels import over
from hardsplat.view.panels.opening import Opening
from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.splats.screen import Appearance
from hardsplat.view.window import Window

NARROWEST = 720  # px of a window at 96 dpi that has room for panels beside the splats
PICTURES = [contract.CONSTANTS[f"FILLED_{name}"] for name in ("PHOTO", "ERROR")]
# keys that go on while they are held
REPEATED = "ArrowLeft ArrowRight ArrowUp ArrowDown BracketLeft BracketRight".split()
# of the mouse, by imgui's
_SHAPES = {
    int(imgui.MouseCursor.TEXT_INPUT): glfw.IBEAM_CURSOR,
    int(imgui.MouseCursor.HAND): glfw.HAND_CURSOR,
    int(imgui.MouseCursor.RESIZE_EW): glfw.HRESIZE_CURSOR,
    int(imgui.MouseCursor.RESIZE_NS): glfw.VRESIZE_CURSOR,
}
# of imgui, by the codes of hardsplat.tables.keys; letters and digits are named alike
_KEYS = {
    "ArrowLeft": "KEY_LEFT_ARROW",
    "ArrowRight": "KEY_RIGHT_ARROW",
    "ArrowUp": "KEY_UP_ARROW",
    "ArrowDown": "KEY_DOWN_ARROW",
    "PageUp": "KEY_PAGE_UP",
    "PageDown": "KEY_PAGE_DOWN",
    "NumpadEnter": "KEY_KEYPAD_ENTER",
    "Control": "MOD_CTRL",
    "Shift": "MOD_SHIFT",
    "Alt": "MOD_ALT",
    "Meta": "MOD_SUPER",
}


def _key(code: str) -> Any:
    """imgui's key; None for one that it need not know."""
    name = _KEYS.get(code) or f"KEY_{code.removeprefix('Key').upper()}"
    return getattr(imgui.Key, name, None)


class Interface:
    """What is told of a window's events, and draws its interface. ui: what panels see. There is one
    at a time."""

    def __init__(self, window: Window, inputs: Inputs, facts: ViewerFacts, look: Appearance):
        self.ui, self.opening = Ui(inputs, facts, look), Opening()
        self.ui.scale, self._window = window.scale, window
        self._context: Any = imgui.create_context()
        self._plots: Any = implot.create_context()
        imgui.set_current_context(self._context)
        implot.set_current_context(self._plots)
        self._io: Any = imgui.get_io()
        self._io.ini_filename = None
        flags = imgui.BackendFlags
        self._io.backend_flags |= flags.RENDERER_HAS_VTX_OFFSET | flags.RENDERER_HAS_TEXTURES
        self._io.backend_flags |= flags.HAS_MOUSE_CURSORS
        style.apply(window.scale)
        self._begun = time.perf_counter()
        self._dragged: int | None = None
        self._shape = 0
        self._font = self._thumbs = np.zeros((1, 1, 4), np.uint8)
        self._fresh = False  # whether these differ from what the last frame had
        window.tell(self._io, self.on_key, self.on_drop)

    # -- events

    def on_drop(self, paths: list[str]) -> None:
        self.ui.opened = paths[0] if paths else ""

    def on_key(self, code: str, down: bool, repeated: bool) -> None:
        if (key := _key(code.removeprefix("Control+"))) is not None:
            self._io.add_key_event(key, down)
        free = code == "Escape" or not self.typing
        if down and free and (not repeated or code in REPEATED):
            self.ui.inputs.on_key(code)

    @property
    def typing(self) -> bool:
        """Whether keys go into a field of text, or a dialog is open."""
        return self._io.want_text_input or self.ui.inputs.browsing

    @property
    def lively(self) -> bool:
        """Whether something changes without events."""
        ui = self.ui
        return self.typing or ui.thumbnails.loading or ui.facts.loading

    @property
    def side(self) -> int:
        """Pixels of the window that panels take from the splats at its right."""
        inputs = self.ui.inputs
        inputs.room = self._window.size[0] >= NARROWEST * self.ui.scale
        return self._width if inputs.room else 0

    @property
    def _width(self) -> int:
        return round(style.SIDE * self.ui.scale) if self.ui.inputs.panelled else 0

    # -- frames

    def frame(self, size: tuple[int, int], region: tuple[int, int], shown: Shown) -> GuiFrame:
        """A frame of a window of that size. region: px of it that show splats; shown: what is
        there."""
        self.ui.side = self.side or min(self._width, size[0])
        before, self._begun = self._begun, time.perf_counter()
        self._io.display_size = float(size[0]), float(size[1])
        self._io.delta_time = max(self._begun - before, 1e-4)
        imgui.new_frame()
        try:
            bar = 0.0
            if not self.ui.fits:  # nothing lies over the image of a fit
                self._steer(region)
                bar = over.draw(self.ui, region, shown)
                self.opening.draw(self.ui)
            if self.ui.side:
                self._draw_side(size, 0.0 if self.ui.inputs.room else bar)
        finally:
            imgui.render()  # also of half a frame, so that the next one can begin
        shape = _SHAPES.get(int(imgui.get_mouse_cursor()), 0)
        if shape != self._shape:
            self._shape = shape
            self._window.point(shape)
        data = imgui.get_draw_data()
        self._take_characters(data)
        return triangles(data)

    def _take_characters(self, data: Any) -> None:
        status = imgui.TextureStatus
        for texture in data.textures or ():
            if texture.status in (status.WANT_CREATE, status.WANT_UPDATES):
                shape = texture.height, texture.width, 4
                self._font, self._fresh = np.array(texture.get_pixels()).reshape(shape), True
                texture.set_tex_id(contract.CONSTANTS["FILLED_ATLAS"])
                texture.set_status(status.OK)
            elif texture.status == status.WANT_DESTROY and texture.unused_frames > 0:
                texture.set_tex_id(0)
                texture.set_status(status.DESTROYED)

    def atlas(self, drawing: GuiFrame) -> np.ndarray | None:
        """(height, width, 4) uint8 of characters, and thumbnails below them, where they have
        changed since the last frame. Tells the commands of this one where their part is."""
        if (thumbs := self.ui.thumbnails.atlas()) is not None:
            self._thumbs, self._fresh = thumbs, True
        parts = self._font, self._thumbs
        height, width = sum(len(p) for p in parts), max(p.shape[1] for p in parts)
        top = 0
        for name, part in zip(("ATLAS", "THUMBS"), parts):
            of = drawing.commands["filling"] == contract.CONSTANTS[f"FILLED_{name}"]
            size = part.shape[1] / width, len(part) / height
            drawing.commands["part"][of] = *size, 0.0, top / height
            top += len(part)
        if not self._fresh:
            return None
        self._fresh = False
        out = np.zeros((height, width, 4), np.uint8)
        out[: len(self._font), : self._font.shape[1]] = self._font
        out[len(self._font) :, : self._thumbs.shape[1]] = self._thumbs
        return out

    def _steer(self, region: tuple[int, int]) -> None:
        """Gives the splats what the mouse does over them."""
        io = self._io
        i, (x, y) = self.ui.inputs, io.mouse_pos
        i.cursor = (x, y) if math.isfinite(x) and abs(x) < 1e6 else i.cursor
        if not io.want_capture_mouse:
            for button in range(3):
                if imgui.is_mouse_clicked(imgui.MouseButton(button)) and self._dragged is None:
                    self._dragged = button
                    i.on_press(button)
            if io.mouse_wheel:
                i.on_scroll(io.mouse_wheel)
        if self._dragged is None:
            return
        dx, dy = io.mouse_delta
        if dx or dy:
            i.on_drag(self._dragged, dx, dy, bool(io.key_shift), max(1, region[1]))
        if not imgui.is_mouse_down(imgui.MouseButton(self._dragged)):
            i.on_release(self._dragged)
            self._dragged = None

    def _draw_side(self, size: tuple[int, int], top: float) -> None:
        """The panels, at the right of a window of that size. top: px above them."""
        flags = widgets.FIXED | imgui.WindowFlags.NO_BRING_TO_FRONT_ON_FOCUS
        imgui.set_next_window_pos((size[0] - self.ui.side, top))
        imgui.set_next_window_size((self.ui.side, size[1] - top))
        imgui.begin("side", flags=flags)
        panels.draw(self.ui)
        imgui.end()

    def destroy(self) -> None:
        """May be called again."""
        self.ui.destroy()
        if self._context is not None:
            implot.destroy_context(self._plots)
            imgui.destroy_context(self._context)
            self._context = None


def triangles(data: Any) -> GuiFrame:
    """What Dear ImGui has drawn. data: of get_draw_data(), which lives as long as the frame."""
    vertex = contract.dtype("GuiVertex")
    vertices: list[np.ndarray] = []
    corners: list[np.ndarray] = []
    pictures = np.zeros((FIRST, 2), np.uint32)  # triangles without an area where there is none
    commands: list[tuple] = []
    first = 0
    for each in data.commands_lists:
        # the triangles live as long as this frame
        raw = _memory(each.vtx_buffer_data, each.vtx_buffer_size * imgui.VERTEX_SIZE)
        vertices.append(raw.view(vertex))
        raw = _memory(each.idx_buffer_data, each.idx_buffer_size * imgui.INDEX_SIZE)
        places = raw.view(np.uint16 if imgui.INDEX_SIZE == 2 else np.uint32)
        for command in each.commands:
            if command.elem_count:
                used = places[command.idx_offset :][: command.elem_count]
                row = np.empty((len(used), 2), np.uint32)
                row[:, 0] = used.astype(np.uint32) + (first + command.vtx_offset)
                row[:, 1] = len(commands)
                filling = command.tex_ref.get_tex_id()
                if filling in PICTURES:
                    pictures[: len(row)] = row[:FIRST]
                else:
                    corners.append(row)
                commands.append((command.clip_rect, (1.0, 1.0, 0.0, 0.0), filling))
        first += each.vtx_buffer_size
    return GuiFrame(
        np.concatenate(vertices) if vertices else np.zeros(0, vertex),
        np.concatenate([pictures, *corners]),
        np.array(commands, contract.dtype("GuiCommand")),
    )


def _memory(address: int, nbytes: int) -> np.ndarray:
    """A copy of bytes at an address."""
    return np.frombuffer(ctypes.string_at(address, nbytes), np.uint8)
