"""Dear ImGui for one window: its context, events in, triangles out. No GPU is needed for it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from slimgui import imgui, implot

from hardsplat import contract
from hardsplat.view.gui import style
from hardsplat.view.gui.canvas import FIRST, GuiFrame

PICTURES = [contract.CONSTANTS[f"FILLED_{name}"] for name in ("PHOTO", "ERROR")]

# of imgui, by the codes of hardsplat.tables.keys; letters and digits are named alike
_KEYS = {
    "ArrowLeft": "KEY_LEFT_ARROW",
    "ArrowRight": "KEY_RIGHT_ARROW",
    "ArrowUp": "KEY_UP_ARROW",
    "ArrowDown": "KEY_DOWN_ARROW",
    "PageUp": "KEY_PAGE_UP",
    "PageDown": "KEY_PAGE_DOWN",
    "NumpadEnter": "KEY_KEYPAD_ENTER",
}
_ALIKE = "Home End Insert Delete Backspace Enter Escape Space Tab".split()
_KEYS |= {name: f"KEY_{name.upper()}" for name in _ALIKE}
_MODIFIERS = {"Control": "MOD_CTRL", "Shift": "MOD_SHIFT", "Alt": "MOD_ALT", "Meta": "MOD_SUPER"}


def _key(code: str) -> Any:
    """imgui's key; None for one that it need not know."""
    name = _KEYS.get(code) or _MODIFIERS.get(code) or f"KEY_{code.removeprefix('Key')}"
    return getattr(imgui.Key, name, None)


class Gui:
    """scale: pixels of the screen for one of a screen of 96 dpi. Coordinates are px of the window's
    image."""

    def __init__(self, scale: float = 1.0):
        self.scale = scale
        self._context: Any = imgui.create_context()
        self._plots: Any = implot.create_context()
        self._begun = time.perf_counter()
        io = imgui.get_io()
        io.ini_filename = None
        flags = imgui.BackendFlags
        io.backend_flags |= flags.RENDERER_HAS_VTX_OFFSET | flags.RENDERER_HAS_TEXTURES
        io.backend_flags |= flags.HAS_MOUSE_CURSORS
        style.apply(scale)
        self._font: Any = None  # texels that the next drawing takes

    def _enter(self) -> Any:
        imgui.set_current_context(self._context)
        implot.set_current_context(self._plots)
        return imgui.get_io()

    # -- events

    def on_cursor(self, x: float, y: float) -> None:
        self._enter().add_mouse_pos_event(x, y)

    def on_button(self, button: int, down: bool) -> None:
        if button < 3:
            self._enter().add_mouse_button_event(button, down)

    def on_scroll(self, across: float, notches: float) -> None:
        self._enter().add_mouse_wheel_event(across, notches)

    def on_key(self, code: str, down: bool) -> None:
        if (key := _key(code)) is not None:
            self._enter().add_key_event(key, down)

    def on_text(self, character: int) -> None:
        self._enter().add_input_character(character)

    def on_focus(self, focused: bool) -> None:
        self._enter().add_focus_event(focused)

    @property
    def typing(self) -> bool:
        """Whether keys go into a field of text."""
        return bool(self._enter().want_text_input)

    # -- frames

    def frame(self, size: tuple[int, int], build: Callable[[], None]) -> GuiFrame:
        """What `build` draws of widgets."""
        io = self._enter()
        now, self._begun = self._begun, time.perf_counter()
        io.display_size = float(size[0]), float(size[1])
        io.delta_time = max(self._begun - now, 1e-4)
        imgui.new_frame()
        try:
            build()
        finally:
            imgui.render()  # also of half a frame, so that the next one can begin
        return self._drawing(imgui.get_draw_data())

    @property
    def cursor(self) -> int:
        """The shape that the mouse should have, of imgui.MouseCursor."""
        self._enter()
        return int(imgui.get_mouse_cursor())

    def font(self) -> np.ndarray | None:
        """(height, width, 4) uint8 of the atlas of characters where it has changed."""
        font, self._font = self._font, None
        return font

    def _drawing(self, data: Any) -> GuiFrame:
        for texture in data.textures or ():
            wanted = imgui.TextureStatus
            if texture.status in (wanted.WANT_CREATE, wanted.WANT_UPDATES):
                shape = texture.height, texture.width, 4
                self._font = np.array(texture.get_pixels()).reshape(shape)
                texture.set_tex_id(contract.CONSTANTS["FILLED_ATLAS"])
                texture.set_status(wanted.OK)
            elif texture.status == wanted.WANT_DESTROY and texture.unused_frames > 0:
                texture.set_tex_id(0)
                texture.set_status(wanted.DESTROYED)
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

    def close(self) -> None:
        """May be called again."""
        if self._context is not None:
            self._enter()
            implot.destroy_context(self._plots)
            imgui.destroy_context(self._context)
            self._context = self._plots = None


def _memory(address: int, nbytes: int) -> np.ndarray:
    """A copy of bytes at an address."""
    return np.frombuffer(ctypes.string_at(address, nbytes), np.uint8)
