"""A glfw window: opening, events, what is held down. What it shows and does is
app/hardsplat/view/viewer.py."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from hardsplat.base.errors import UserError

try:
    import glfw
except ImportError as error:
    why = f"no window: the glfw library cannot be loaded ({error}); pip install glfw"
    raise UserError(why) from None

from hardsplat.gpu import surface

LEAST = 640  # px of the longer side of a window to begin with
SHARE = 0.8  # of the monitor, at most
NOWHERE = -1e9, -1e9  # the cursor's place outside of the window

log = logging.getLogger("hardsplat")


def start() -> list[str]:
    """Connects to the display; the instance extensions that a device must be opened with. Raises
    UserError without a display.

    May be called again. The connection stays until the process ends: Mesa knows connections by
    their address, and would take the next one for this.
    """
    said = []

    def note(code, text) -> None:
        said.append(text.decode(errors="replace") if isinstance(text, bytes) else str(text))

    glfw.set_error_callback(note)
    if not glfw.init():
        why = said[0].rstrip(".") if said else "glfw does not start"
        browser = "train and view also show splats in a browser, with --serve"
        raise UserError(f"no window: {why}; it takes a desktop, or DISPLAY set to one; {browser}")
    glfw.set_error_callback(lambda code, text: log.debug("glfw: %s", text))
    return surface.extensions()


# keys by the codes of hardsplat.tables.keys
_CODES = {glfw.KEY_A + i: f"Key{chr(65 + i)}" for i in range(26)}
_CODES |= {glfw.KEY_0 + i: f"Digit{i}" for i in range(10)}
_CODES |= {glfw.KEY_F1 + i: f"F{i + 1}" for i in range(12)}
_CODES |= {
    getattr(glfw, f"KEY_{name.upper()}"): name
    for name in "Home End Insert Delete Backspace Enter Escape Space Tab".split()
}
_CODES |= {
    glfw.KEY_LEFT: "ArrowLeft",
    glfw.KEY_RIGHT: "ArrowRight",
    glfw.KEY_UP: "ArrowUp",
    glfw.KEY_DOWN: "ArrowDown",
    glfw.KEY_PAGE_UP: "PageUp",
    glfw.KEY_PAGE_DOWN: "PageDown",
    glfw.KEY_KP_ENTER: "NumpadEnter",
    glfw.KEY_LEFT_BRACKET: "BracketLeft",
    glfw.KEY_RIGHT_BRACKET: "BracketRight",
}
_BY_CODE = {code: key for key, code in _CODES.items()}
_MODIFIERS = {
    "Control": (glfw.KEY_LEFT_CONTROL, glfw.KEY_RIGHT_CONTROL),
    "Shift": (glfw.KEY_LEFT_SHIFT, glfw.KEY_RIGHT_SHIFT),
    "Alt": (glfw.KEY_LEFT_ALT, glfw.KEY_RIGHT_ALT),
    "Meta": (glfw.KEY_LEFT_SUPER, glfw.KEY_RIGHT_SUPER),
}


class Window:
    """size: (width, height) of the inside, px of the screen; None: of `image`, larger where that is
    small, smaller where the monitor is. events: how many there were.
    """

    def __init__(self, title: str, image: tuple[int, int], size: tuple[int, int] | None = None):
        glfw.default_window_hints()
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        glfw.window_hint(glfw.FOCUS_ON_SHOW, glfw.FALSE)
        glfw.window_hint(glfw.SCALE_TO_MONITOR, glfw.FALSE if size else glfw.TRUE)
        self.handle: Any = glfw.create_window(*(size or _first_size(image)), title, None, None)
        if not self.handle:
            raise UserError("no window: the display refuses to open one")
        self.resized, self.events = True, 0
        self._before_full: tuple[int, int, int, int] | None = None
        self._cursors: dict[int, Any] = {}

    def tell(
        self, io: Any, key: Callable[[str, bool, bool], None], drop: Callable[[list[str]], None]
    ) -> None:
        """Has it told of events. io: Dear ImGui's, with places in px of the window's image. key: is
        given a code of hardsplat.tables.keys, and whether it is down and repeated. drop: paths."""
        self._io, self._key, handle, on = io, key, self.handle, self._on
        glfw.set_key_callback(handle, self._on_key)
        glfw.set_char_callback(handle, on(lambda w, c: io.add_input_character(c)))
        glfw.set_scroll_callback(handle, on(lambda w, x, y: io.add_mouse_wheel_event(x, y)))
        glfw.set_cursor_pos_callback(handle, on(self._on_cursor))
        glfw.set_cursor_enter_callback(handle, on(self._on_enter))
        glfw.set_mouse_button_callback(handle, on(self._on_button))
        glfw.set_window_focus_callback(handle, on(lambda w, on_it: io.add_focus_event(bool(on_it))))
        glfw.set_window_refresh_callback(handle, on(lambda w: None))
        glfw.set_drop_callback(handle, on(lambda w, paths: drop(paths)))
        glfw.set_framebuffer_size_callback(handle, on(self._on_size))

    def _on(self, act: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments) -> None:
            self.events += 1
            act(*arguments)

        return called

    def _on_size(self, window, width: int, height: int) -> None:
        self.resized = True

    def _on_key(self, window, key: int, scancode: int, action: int, mods: int) -> None:
        self.events += 1
        for name, keys in _MODIFIERS.items():
            if key in keys:
                self._key(name, action != glfw.RELEASE, action == glfw.REPEAT)
        if key in _CODES:
            before = "Control+" if mods & (glfw.MOD_CONTROL | glfw.MOD_SUPER) else ""
            repeated = action == glfw.REPEAT
            self._key(before + _CODES[key], action != glfw.RELEASE, repeated)

    def _on_cursor(self, window, x: float, y: float) -> None:
        (w, h), (across, down) = glfw.get_window_size(window), self.size
        self._io.add_mouse_pos_event(x * across / max(1, w), y * down / max(1, h))

    def _on_button(self, window, button: int, action: int, mods: int) -> None:
        if button < 3:
            self._io.add_mouse_button_event(button, action == glfw.PRESS)

    def _on_enter(self, window, entered: int) -> None:
        if not entered:
            self._io.add_mouse_pos_event(*NOWHERE)

    def held(self, code: str) -> bool:
        """Whether a key is down, and Control is not."""
        keys = _BY_CODE[code], *_MODIFIERS["Control"]
        down, *control = (glfw.get_key(self.handle, key) == glfw.PRESS for key in keys)
        return down and not any(control)

    @property
    def shift(self) -> bool:
        keys = _MODIFIERS["Shift"]
        return any(glfw.get_key(self.handle, key) == glfw.PRESS for key in keys)

    def point(self, shape: int) -> None:
        """Gives the mouse a shape of glfw, 0 for an arrow."""
        if shape and shape not in self._cursors:
            self._cursors[shape] = glfw.create_standard_cursor(shape)
        none: Any = None
        glfw.set_cursor(self.handle, self._cursors[shape] if shape else none)

    def fill(self, full: bool) -> None:
        """Covers the monitor, or has its earlier place and size again."""
        if full == (self._before_full is not None):
            return
        if not full and self._before_full:
            none: Any = None
            glfw.set_window_monitor(self.handle, none, *self._before_full, glfw.DONT_CARE)
            self._before_full = None
        elif monitor := glfw.get_primary_monitor():
            place = glfw.get_window_pos(self.handle)
            self._before_full = (*place, *glfw.get_window_size(self.handle))
            mode = glfw.get_video_mode(monitor)
            glfw.set_window_monitor(
                self.handle, monitor, 0, 0, mode.size.width, mode.size.height, mode.refresh_rate
            )

    def name(self, title: str) -> None:
        glfw.set_window_title(self.handle, title)

    @property
    def shown(self) -> bool:
        """Whether there is anything to draw to: neither hidden nor minimized."""
        visible = bool(glfw.get_window_attrib(self.handle, glfw.VISIBLE))
        iconified = glfw.get_window_attrib(self.handle, glfw.ICONIFIED)
        return visible and not iconified and min(self.size) > 0

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return glfw.get_framebuffer_size(self.handle)

    @property
    def scale(self) -> float:
        """Pixels of the screen for one of a screen of 96 dpi."""
        return max(1.0, float(glfw.get_window_content_scale(self.handle)[0]))

    @property
    def closing(self) -> bool:
        return bool(glfw.window_should_close(self.handle))

    def poll(self, seconds: float = 0.0) -> None:
        """Handles events; waits for one as long as that."""
        glfw.wait_events_timeout(seconds) if seconds > 0 else glfw.poll_events()

    def destroy(self) -> None:
        if self.handle:
            glfw.destroy_window(self.handle)
            self.handle = None


def _first_size(image: tuple[int, int]) -> tuple[int, int]:
    scale = max(1.0, LEAST / max(image))
    monitor = glfw.get_primary_monitor()
    if monitor:
        _, _, width, height = glfw.get_monitor_workarea(monitor)
        if min(width, height) > 0:
            scale = min(scale, SHARE * width / image[0], SHARE * height / image[1])
    return max(1, round(scale * image[0])), max(1, round(scale * image[1]))
