"""A glfw window: opening, events, what is held down. What it shows and does is
app/hardsplat/view/viewer.py."""

from __future__ import annotations

import logging
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


class Window:
    """handler: None, or has on_key(key), on_drag(button, dx, dy, shift, height),
    on_scroll(notches), on_cursor(x, y, size); px as glfw counts them.

    size: (width, height) of the inside, px of the screen; None: of `image`, larger where that is
    small, smaller where the monitor is.
    """

    def __init__(
        self, title: str, image: tuple[int, int], handler, size: tuple[int, int] | None = None
    ):
        glfw.default_window_hints()
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        glfw.window_hint(glfw.FOCUS_ON_SHOW, glfw.FALSE)
        self.handle: Any = glfw.create_window(*(size or _first_size(image)), title, None, None)
        if not self.handle:
            raise UserError("no window: the display refuses to open one")
        self.handler, self.resized = handler, True
        self._cursor: tuple[float, float] | None = None
        if handler is not None:
            glfw.set_key_callback(self.handle, self._on_key)
            glfw.set_scroll_callback(self.handle, lambda w, x, y: handler.on_scroll(y))
            glfw.set_cursor_pos_callback(self.handle, self._on_cursor)
        glfw.set_framebuffer_size_callback(self.handle, self._on_size)

    def _on_size(self, window, width: int, height: int) -> None:
        self.resized = True

    def _on_key(self, window, key: int, scancode: int, action: int, mods: int) -> None:
        if action != glfw.RELEASE:
            self.handler.on_key(key)

    def _on_cursor(self, window, x: float, y: float) -> None:
        before, self._cursor = self._cursor, (x, y)
        self.handler.on_cursor(x, y, glfw.get_window_size(window))
        pressed = [b for b in (0, 1, 2) if glfw.get_mouse_button(window, b) == glfw.PRESS]
        if before is not None and pressed:
            dx, dy, height = x - before[0], y - before[1], glfw.get_window_size(window)[1]
            self.handler.on_drag(pressed[0], dx, dy, self.shift, max(1, height))

    def held(self, key: int) -> bool:
        return glfw.get_key(self.handle, key) == glfw.PRESS

    @property
    def shift(self) -> bool:
        return self.held(glfw.KEY_LEFT_SHIFT) or self.held(glfw.KEY_RIGHT_SHIFT)

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
    def font(self) -> int:
        """px of text that suits the screen."""
        return max(9, round(13 * glfw.get_window_content_scale(self.handle)[0]))

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
