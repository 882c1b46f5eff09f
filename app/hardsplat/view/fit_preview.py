"""`hardsplat fit --view`: a window with what a fit drew last. It answers between batches and waits
for nothing."""

from __future__ import annotations

import time
from contextlib import suppress

from tqdm import tqdm

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.fit.session import FitSession
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.pipelines import build
from hardsplat.gpu.surface import Surface
from hardsplat.raster.pictures import FIT_SCREEN_PASS
from hardsplat.tables.formats import FORMATS
from hardsplat.view import window
from hardsplat.view.viewer import REFRESH


class FitPreview:
    """Raises UserError without a display. Whatever goes wrong with the window afterwards closes it
    with a note, and the fit continues."""

    batch_seconds = REFRESH  # how long a batch may take while the window is seen

    def __init__(self, size: tuple[int, int] | None = None):
        self.surfaces, self._size, self.frames = window.start(), size, 0
        self._parts: list = []
        self._flying, self._drawn_at = False, -1e9
        # target, frame and size that the commands are for
        self._drawn: tuple[Buffer | Image, Buffer | Image, tuple[int, int]] | None = None
        self.window: window.Window | None = None
        self._surface: Surface | None = None
        self._image: Image | None = None
        self._commands: Recorder | None = None

    def open(self, device: Device, session: FitSession, title: str) -> None:
        try:
            size = session.width, session.height
            self.window = window.Window(f"{title} - hardsplat", size, None, self._size)
            self._surface, self._fence = Surface(device, self.window.handle), Fence(device)
            nbytes = contract.itemsize("window_shown")
            self._shown = Buffer(device, nbytes, "window_shown", host=True)
            self._parts += [self._fence, self._shown]
        except DeviceLost:
            raise
        except UserError as error:
            self._end(error)

    @property
    def shown(self) -> bool:
        return self.window is not None and self.window.shown

    def turn(self, session: FitSession) -> None:
        """Handles events, and shows `target` where a frame is due and the last one is on the
        screen."""
        if self.window is None:
            return None
        self.window.poll()
        if self.window.closing:
            return self.close()
        try:
            if self._flying and self._fence.done():
                self._flying = False
                self._fence.reset()
                self.frames += 1
            due = time.perf_counter() - self._drawn_at >= REFRESH
            if due and not self._flying and self.window.shown:
                self._show(session, self.window, self._surface)
        except DeviceLost:
            raise
        except UserError as error:
            self._end(error)

    def _show(self, session: FitSession, shown: window.Window, surface: Surface | None) -> None:
        if surface is None:
            return
        if shown.resized:
            shown.resized, surface.stale = False, True
        if not surface.fit() or not surface.ready():
            return
        size = surface.width, surface.height
        drawn = (session.resources["target"], session.resources["frame"], size)
        was = self._drawn
        if was is None or size != was[2] or drawn[0] is not was[0] or drawn[1] is not was[1]:
            self._record(session, size)
            self._drawn = drawn
        if self._commands and self._image:
            surface.present([self._commands], self._image, *size, self._fence)
            self._flying, self._drawn_at = True, time.perf_counter()

    def _record(self, session: FitSession, size: tuple[int, int]) -> None:
        """No frame may be in flight."""
        for part in (self._commands, self._image):
            if part is not None:
                part.destroy()
        self._commands = self._image = None
        self._shown.upload(contract.struct("Window", size=size))
        rgba8 = FORMATS["unorm8"]
        self._image = image = Image(session.device, *size, rgba8.vk, rgba8.texel, "screen")
        resources = {**session.resources, "window_shown": self._shown, "screen": image}
        self._commands = commands = Recorder(session.device, resources)
        commands.run(build(session.device, FIT_SCREEN_PASS), threads=size)
        commands.end()

    def _end(self, error: UserError) -> None:
        tqdm.write(f"note: the window is closed: {error}. The fit continues")
        self.close()

    def close(self) -> None:
        """Before the session that is shown is destroyed. May be called again."""
        if self._flying:
            with suppress(DeviceLost):
                self._fence.wait()
            self._flying = False
        for part in (self._commands, self._image, self._surface, *self._parts, self.window):
            if part is not None:
                part.destroy()
        self.window = self._surface = self._image = self._commands = self._drawn = None
        self._parts = []
