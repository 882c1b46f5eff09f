"""A viewer: window, inputs, picture, photograph and text put together, a frame at a time. Who has
the splats calls `turn` now and then."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence
from hardsplat.gpu.memory.owned import Owned
from hardsplat.gpu.surface import Surface
from hardsplat.io.media.images import save_png
from hardsplat.model.camera import Camera
from hardsplat.raster.core.parameters import Parameters
from hardsplat.view.controls import placed
from hardsplat.view.inputs import Inputs
from hardsplat.view.overlay import LEGEND
from hardsplat.view.photographs import PhotographCache
from hardsplat.view.screen import REFRESH, Layout, Look, Screen, coarse
from hardsplat.view.window import Window

OPENED = (1280, 720)  # px of a window to begin with, where the screen has room for it
# share of the GPU's time that frames may take while others use it, and while the camera moves
RESTING, TOUCHED = 0.02, 0.5
TOUCH = 0.5  # s that a touch lasts
SETTLED = 0.1  # s without a change of size before the swapchain follows
UNITS = {"depth": " world units", "count": " splats"}  # of numbers that a palette shows


@dataclass(eq=False)
class Viewer:
    """device: opened with the extensions of window.start(). inputs: what the window's keys and
    mouse change. folder: for screenshots.

    busy: others use the GPU, which must hardly notice: frames are few while the window is not
    touched. size: see Window. Raises UserError where this device cannot draw to the window.
    """

    device: Device
    title: str
    look: Look
    inputs: Inputs
    folder: Path
    busy: bool = False
    size: tuple[int, int] | None = None

    def __post_init__(self):
        look = self.look
        self.closed, self.frames, self.frame_ms = False, 0, 0.0
        self.camera: Camera | None = None  # of the last frame
        self._full_ms = 0.0  # of a frame that was not drawn in larger pixels
        self._flying, self._scale = False, 1
        self._span: tuple[float, float] | None = None
        self._photo: np.ndarray | None = None
        self._drawn_at = self._resized_at = -1e9
        self._photographs = PhotographCache(look.background)
        self.window = Window(self.title, OPENED, self.inputs, self.size)
        self._parts = Owned([self.window])
        try:
            self.surface = self._parts.add(Surface(self.device, self.window.handle))
            self.screen = self._parts.add(Screen(self.device, look, self.window.font))
            self._fence = self._parts.add(Fence(self.device))
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> bool:
        """Whether there is a window to be seen."""
        return not self.closed and self.window.shown

    @property
    def idle(self) -> bool:
        """Whether no frame is in flight, so that splats may be changed."""
        return not self._flying or self._fence.done()

    @property
    def paused(self) -> bool:
        return not self.closed and self.inputs.paused

    def prepare(self, parameters: Parameters) -> None:
        """Builds what the first frame takes, which is slow on some drivers, before it is due."""
        self.screen.fit(parameters, self.window.size, self.inputs.picture)

    def turn(
        self, parameters: Parameters, sh_degree: int, lines: Sequence[str] = (), wait: bool = False
    ) -> None:
        """Handles events and queues a frame where one is due. Waits for nothing, with `wait` for
        events, as long as a frame lasts.

        parameters: as they are now. sh_degree: highest band in use. lines: the caller's part of the
        text. Raises UserError, with the window closed, when frames cannot go on; DeviceLost is one.
        """
        if self.closed:
            return None
        self.window.poll(REFRESH / 2 if wait else 0.0)
        if self.window.closing or self.inputs.closing:
            return self.close()
        try:
            self.inputs.fly(self.window.held, self.window.shift)
            if self._landed():
                self._next(parameters, sh_degree, lines)
        except UserError:
            self.close()
            raise

    def _landed(self) -> bool:
        """Whether no frame is in flight. Takes down what the last one has to say."""
        if self._flying and self._fence.done():
            self._flying = False
            self._fence.reset()
            self.frames, self.frame_ms = self.frames + 1, self.screen.ms()
            if self._scale == 1:
                self._full_ms = self.frame_ms
            if self.camera and (span := self.screen.respan(self.camera)) != self._span:
                self._span, self.inputs.changed = span, True
        return not self._flying

    def _next(self, parameters: Parameters, sh_degree: int, lines: Sequence[str]) -> None:
        now = time.perf_counter()
        if self.inputs.capturing:
            self.inputs.capturing = False
            self._capture(parameters, sh_degree)
        if self.window.shown and self._due(now) and self._fits(now) and self.surface.ready():
            size = self.surface.width, self.surface.height
            self.inputs.changed = False
            self._draw(parameters, sh_degree, size, self._text(lines, sh_degree, size))
            self.surface.present([self.screen.commands], self.screen.image, *size, self._fence)
            self._flying, self._drawn_at = True, now

    def _due(self, now: float) -> bool:
        """Not more often than eyes need, nor than leaves others their share of the GPU; without
        others, when something changed."""
        i, training = self.inputs, self.busy and not self.inputs.paused
        i.noted()
        share = (TOUCHED if now - i.touched_at < TOUCH else RESTING) if training else 1.0
        changed = training or i.changed or self._scale > 1 or self._photographs.arrived
        changed = changed or self.window.resized or self.surface.stale
        return changed and now - self._drawn_at >= max(REFRESH, self.frame_ms / 1000 / share)

    def _fits(self, now: float) -> bool:
        """Whether there is a swapchain of the window's size, which it gets once that has
        settled."""
        if self.window.resized:
            self.window.resized, self._resized_at = False, now
            self.surface.stale = self.inputs.changed = True
        if self.surface.stale and self.surface.width and now - self._resized_at < SETTLED:
            return False
        return self.surface.fit()

    def _draw(
        self,
        parameters: Parameters,
        sh_degree: int,
        size: tuple[int, int],
        text: list[str],
        capturing=False,
    ) -> None:
        """Makes the next frame's commands ready."""
        i = self.inputs
        try:
            self.screen.fit(parameters, size, i.picture)
        except UserError as error:
            if i.picture == "image" or isinstance(error, DeviceLost | OutOfMemory):
                raise
            i.say(str(error))  # of a target that this device cannot blend
            i.picture = "image"
            self.screen.fit(parameters, size, i.picture)
        moving = time.perf_counter() - i.moved_at < TOUCH and not capturing
        self._scale = coarse(self._full_ms) if moving else 1
        point = None if i.point is None or i.photo == "none" else i.points[i.point]
        pictured = point is not None and point.photo is not None
        beside = i.photo == "beside" and pictured
        render = max(1, size[0] // 2) if beside else size[0], size[1]
        photo = frame = (0, 0, 0, 0)
        if point is not None and pictured:
            x, y, across, down = placed(point.camera, *render)
            if self._photograph(point, across, down):
                photo = (x + render[0] if beside else x, y, across, down)
                frame = (x, y, across, down) if beside else frame
        self.camera = i.controls.camera(*(-(-side // self._scale) for side in render))
        share = 0.5 if i.photo == "half over" else 1.0
        layout = Layout(size, render, self._scale, photo, share, frame)
        self.screen.place(self.camera, self._degree(sh_degree), layout, text)

    def _photograph(self, point, width: int, height: int) -> bool:
        """Whether the photograph of this size is on the GPU."""
        try:
            words = self._photographs.words(point, width, height)
        except UserError as error:
            self.inputs.say(str(error))
            return False
        if words is not None and words is not self._photo:
            self.screen.photograph(words)
            self._photo = words
        return words is not None

    def _degree(self, sh_degree: int) -> int:
        return sh_degree if self.inputs.degree is None else min(sh_degree, self.inputs.degree)

    def _text(self, lines: Sequence[str], sh_degree: int, size: tuple[int, int]) -> list[str]:
        i = self.inputs
        if not i.text:
            return []
        spent = [f"{self.frame_ms:.1f} ms a frame"] if self.frame_ms else []
        degree = [f"SH degree {self._degree(sh_degree)}"] * bool(i.sh_degree)
        shown = *degree, self.screen.format, f"{size[0]}x{size[1]}"
        out = [*lines, "   ".join([i.picture, *spent, *shown])]
        if self._span and i.picture != "image":
            low, high = (f"{end:.3g}" for end in self._span)
            out.append(f"{i.picture} {low} {LEGEND} {high}{UNITS.get(i.picture, '')}")
        if i.point is not None:
            out.append(f"camera {i.point + 1} of {len(i.points)}: {i.points[i.point].name}")
        out += ["paused: space resumes"] * i.paused + [i.note] * bool(i.noted())
        if i.help:
            width = max(len(keys) for keys, _ in i.help_rows) + 3
            return [*out, "", *(f"{keys:{width}}{what}" for keys, what in i.help_rows)]
        return [*out, "F1: keys"]

    def _capture(self, parameters: Parameters, sh_degree: int) -> None:
        """A screenshot without text, of the window as it is or would be."""
        size = self.window.size
        if min(size) == 0:
            return
        self._draw(parameters, sh_degree, size, [], capturing=True)
        self.screen.commands.run_once()
        paths = (self.folder / f"screenshot_{number:03d}.png" for number in itertools.count(1))
        path = next(path for path in paths if not path.exists())
        try:
            save_png(path, self.screen.pixels(*size))
            self.inputs.say(f"saved {path}")
        except UserError as error:
            self.inputs.say(str(error))

    def close(self) -> None:
        """Frees everything, after the frame in flight. May be called again."""
        if self.closed:
            return
        self.closed = True
        self._photographs.close()
        if self._flying:
            with suppress(DeviceLost):
                self._fence.wait()
        self._parts.destroy()
