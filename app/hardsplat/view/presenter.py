"""The interface in its window: which device draws it, and when."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import Fence
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import Owned
from hardsplat.gpu.surface import Surface
from hardsplat.view import window
from hardsplat.view.gui.canvas import Canvas
from hardsplat.view.gui.ui import Shown
from hardsplat.view.interface import Interface

INTERFACE = 1 / 60  # s between frames, at least
IDLE = 0.25  # s between them while something goes on and nobody touches anything
SETTLED = 0.1  # s without a change of size before the swapchain follows
AFTER = 4  # frames after the last event, in which the interface comes to rest
YIELDING = 10  # priority (nice) of threads of lavapipe that draw splats


class Presenter:
    """shown: the window. device: that draws splats; apart: another one of the same kind draws the
    interface. scene: texels of a new picture, which the next frame takes; None without one.

    Raises UserError where the device cannot draw to the window.
    """

    def __init__(self, shown: window.Window, interface: Interface, device: Device, apart: bool):
        self.window, self.interface, self.apart, self.frames = shown, interface, apart, 0
        self.scene: np.ndarray | None = None
        self._events, self._awake, self._painting = -1, AFTER, False
        self._painted_at = self._resized_at = -1e9
        self._parts, self.device = Owned(), device
        try:
            if apart:
                _yield_threads()
                self.device = Device(device.name, surfaces=window.start())
            self.surface = self._parts.add(Surface(self.device, shown.handle))
            self.canvas = self._parts.add(Canvas(self.device))
            self._painted = self._parts.add(Fence(self.device))
        except BaseException:
            self.destroy()
            raise

    def due(self, changed: bool, lively: bool) -> bool:
        """Whether a frame should and can be drawn now. changed: something to be seen did. lively:
        something goes on without events."""
        now = time.perf_counter()
        if self.window.resized:
            self.window.resized, self._resized_at = False, now
            self.surface.stale = True
        if self._events != self.window.events or changed:
            self._events, self._awake = self.window.events, AFTER
        lively = lively or self.surface.stale or self.interface.lively
        wanted = self._awake > 0 or (lively and now - self._painted_at >= IDLE)
        if not wanted or now - self._painted_at < INTERFACE or not self.window.shown:
            return False
        return self._landed() and self._fits(now) and self.surface.ready()

    def wake(self) -> None:
        """Has frames drawn: the second one has windows that fit their text."""
        self._awake = max(self._awake, 2)

    def _fits(self, now: float) -> bool:
        """Whether there is a swapchain of the window's size, which it gets once that has
        settled."""
        if self.surface.stale and self.surface.width and now - self._resized_at < SETTLED:
            return False
        return self.surface.fit()

    def _landed(self) -> bool:
        if self._painting and self._painted.done():
            self._painting = False
            self._painted.reset()
            self.frames += 1
        return not self._painting

    def finish(self) -> None:
        """Waits for the frame in flight, which is short."""
        if self._painting:
            self._painted.wait()
            self._landed()

    def take(self, copy: Buffer, width: int, height: int) -> None:
        """Shows the picture that a buffer of this device holds, from the next frame on."""
        self.finish()
        self.canvas.take("gui_scene", copy, width, height)

    def forget(self) -> None:
        """That buffer may go: the last picture stays."""
        self.finish()
        self.canvas.textures["gui_scene"].drop()

    def photo(self, texels: np.ndarray) -> None:
        """(height, width, 4) uint8 of a photograph, or of a difference."""
        self.finish()
        self.canvas.texture("gui_photo", texels)

    def paint(self, region: tuple[int, int], shown: Shown) -> None:
        """Draws and presents a frame, which is due. region: px of the window that show splats."""
        self._painted_at = time.perf_counter()  # on a CPU, presenting waits for the drawing
        size = self.surface.width, self.surface.height
        if self.scene is not None:
            self.canvas.texture("gui_scene", self.scene)
            self.scene = None
        drawing = self.interface.frame(size, region, shown)
        if (atlas := self.interface.atlas(drawing)) is not None:
            self.canvas.texture("gui_atlas", atlas)
        commands = self.canvas.draw(drawing, size, shown.place(region), **shown.window())
        self.surface.present(commands, self.canvas.image, size[0], size[1], self._painted)
        self._painting = True
        self._awake -= 1

    def destroy(self) -> None:
        """After the frame in flight, which is not known where Ctrl-C cut it short."""
        if self.device.handle is not None:
            self.device.settle()
        self._parts.destroy()
        if self.apart and self.device.handle is not None:
            self.device.close()


def _yield_threads() -> None:
    """Has threads by which Mesa draws on a CPU so far yield to those that draw the interface."""
    for name in Path("/proc/self/task").glob("*/comm"):  # none but on Linux
        with suppress(OSError):  # the thread has ended
            if name.read_text().startswith("llvmpipe"):
                os.setpriority(os.PRIO_PROCESS, int(name.parent.name), YIELDING)
