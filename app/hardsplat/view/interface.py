"""The interface of a window: events in, panels and what lies over the splats out."""

from __future__ import annotations

import math
from typing import Any

import glfw
import numpy as np
from slimgui import imgui

from hardsplat import contract
from hardsplat.view import panels
from hardsplat.view.gui import style
from hardsplat.view.gui.canvas import GuiFrame
from hardsplat.view.gui.context import Gui
from hardsplat.view.gui.ui import Shown, Ui, ViewerFacts
from hardsplat.view.panels import over
from hardsplat.view.panels.opening import Opening
from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.splats.screen import Appearance
from hardsplat.view.window import Window

NARROWEST = 720  # px of a window at 96 dpi that has room for panels beside the splats
# keys that go on while they are held
REPEATED = "ArrowLeft ArrowRight ArrowUp ArrowDown BracketLeft BracketRight".split()
_SHAPES = {
    "TEXT_INPUT": glfw.IBEAM_CURSOR,
    "HAND": glfw.HAND_CURSOR,
    "RESIZE_EW": glfw.HRESIZE_CURSOR,
    "RESIZE_NS": glfw.VRESIZE_CURSOR,
}


class Interface:
    """What is told of a window's events, and draws its interface. ui: what panels see."""

    def __init__(self, window: Window, inputs: Inputs, facts: ViewerFacts, look: Appearance):
        self.ui, self.opening = Ui(inputs, facts, look), Opening()
        self._window, gui = window, Gui(window.scale)
        self.ui.scale, self._gui = window.scale, gui
        self.on_cursor, self.on_button, self.on_scroll = gui.on_cursor, gui.on_button, gui.on_scroll
        self.on_text, self.on_focus = gui.on_text, gui.on_focus
        self._dragged: int | None = None
        self._shape = 0
        self._font = self._thumbs = np.zeros((1, 1, 4), np.uint8)
        window.tell(self)

    # -- events

    def on_drop(self, paths: list[str]) -> None:
        self.ui.opened = paths[0] if paths else ""

    def on_key(self, code: str, down: bool, repeated: bool) -> None:
        self._gui.on_key(code.removeprefix("Control+"), down)
        free = code == "Escape" or not self.typing
        if down and free and (not repeated or code in REPEATED):
            self.ui.inputs.on_key(code)

    @property
    def typing(self) -> bool:
        """Whether keys go into a field of text, or a dialog is open."""
        return self._gui.typing or self.ui.inputs.browsing

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
        drawing = self._gui.frame(size, lambda: self.build(size, region, shown))
        self._point()
        return drawing

    def build(self, size: tuple[int, int], region: tuple[int, int], shown: Shown) -> None:
        """The widgets of a frame, see there."""
        self._steer(region)
        bar = over.draw(self.ui, region, shown)
        if self.ui.side:
            self.draw_side(size, 0.0 if self.ui.inputs.room else bar)
        self.opening.draw(self.ui)

    def atlas(self, drawing: GuiFrame) -> np.ndarray | None:
        """(height, width, 4) uint8 of characters, and thumbnails below them, where they have
        changed since the last frame. Tells the commands of this one where their part is."""
        font, thumbs = self._gui.font(), self.ui.thumbnails.atlas()
        fresh = font is not None or thumbs is not None
        self._font = self._font if font is None else font
        self._thumbs = self._thumbs if thumbs is None else thumbs
        parts = self._font, self._thumbs
        height, width = sum(len(p) for p in parts), max(p.shape[1] for p in parts)
        top = 0
        for name, part in zip(("ATLAS", "THUMBS"), parts):
            of = drawing.commands["filling"] == contract.CONSTANTS[f"FILLED_{name}"]
            size = part.shape[1] / width, len(part) / height
            drawing.commands["part"][of] = *size, 0.0, top / height
            top += len(part)
        if not fresh:
            return None
        out = np.zeros((height, width, 4), np.uint8)
        out[: len(self._font), : self._font.shape[1]] = self._font
        out[len(self._font) :, : self._thumbs.shape[1]] = self._thumbs
        return out

    def _steer(self, region: tuple[int, int]) -> None:
        """Gives the splats what the mouse does over them."""
        io: Any = imgui.get_io()
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

    def draw_side(self, size: tuple[int, int], top: float = 0.0) -> None:
        """The panels, at the right of a window of that size. top: px above them."""
        flags = imgui.WindowFlags
        fixed = flags.NO_TITLE_BAR | flags.NO_RESIZE | flags.NO_MOVE | flags.NO_COLLAPSE
        imgui.set_next_window_pos((size[0] - self.ui.side, top))
        imgui.set_next_window_size((self.ui.side, size[1] - top))
        imgui.begin("side", flags=fixed | flags.NO_BRING_TO_FRONT_ON_FOCUS)
        panels.draw(self.ui)
        imgui.end()

    def _point(self) -> None:
        """Gives the mouse the shape that widgets want."""
        shapes = {int(getattr(imgui.MouseCursor, name)): shape for name, shape in _SHAPES.items()}
        shape = shapes.get(self._gui.cursor, 0)
        if shape != self._shape:
            self._shape = shape
            self._window.point(shape)

    def destroy(self) -> None:
        """May be called again."""
        self.ui.destroy()
        self._gui.close()
