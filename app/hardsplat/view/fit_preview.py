"""`hardsplat fit --view`: a window with what a fit drew last, and the panel of its run. It answers
between batches and waits for nothing but a pause."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
from tqdm import tqdm

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.fit.session import FitSession
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, submit
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned
from hardsplat.gpu.passes.pipelines import build
from hardsplat.model.camera import Camera
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.pictures import FIT_SCREEN_PASS
from hardsplat.tables.formats import FORMATS
from hardsplat.view import window
from hardsplat.view.gui.style import SIDE
from hardsplat.view.gui.ui import Shown, TrainingFacts, ViewerFacts
from hardsplat.view.interface import Interface
from hardsplat.view.presenter import INTERFACE, Presenter
from hardsplat.view.splats.controls import Controls
from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.splats.screen import REFRESH, Appearance

NARROW = 480  # px of an image that is smaller than the panel beside it should be


class _FitInterface(Interface):
    """The panel alone: nothing lies over the image, and the mouse does nothing there."""

    def build(self, size: tuple[int, int], region: tuple[int, int], shown: Shown) -> None:
        if self.ui.side:
            self.draw_side(size)


class FitPreview:
    """Raises UserError without a display. Whatever goes wrong with the window afterwards closes it
    with a note, and the fit continues.

    size: px of the window, without a panel where it is narrow; by default that of the image, and
    room for the panel.
    """

    def __init__(self, size: tuple[int, int] | None = None):
        self.surfaces, self._size, self.frames = window.start(), size, 0
        self._parts, self._flying, self._drawn_at, self._stepping = Owned(), False, -1e9, False
        # target, frame and size that the commands are for
        self._drawn: tuple[Buffer | Image, Buffer | Image, tuple[int, int]] | None = None
        self.window: window.Window | None = None
        self._picture, self._shown = Owned(), Shown()

    def open(self, device: Device, session: FitSession, title: str) -> None:
        try:
            size, eye = (session.width, session.height), Camera(np.eye(4), np.eye(3), 1, 1)
            steps = session.config.max_steps
            self.facts = ViewerFacts(training=TrainingFacts(steps=steps))
            self.inputs = Inputs(Controls(eye, (0, -1, 0), (0, 0, 1)), can_pause=True)
            self.inputs.parts = ("fit",)
            look = Appearance(HardwareOptions())
            room = max(size[0], NARROW) + round(SIDE), max(size[1], NARROW)
            self.window = shown = window.Window(f"{title} - hardsplat", room, self._size)
            self.interface = self._parts.add(_FitInterface(shown, self.inputs, self.facts, look))
            self.face = self._parts.add(Presenter(self.window, self.interface, device, apart=False))
            self._fence = self._parts.add(Fence(device))
            nbytes = contract.itemsize("window_shown")
            self._place = self._parts.add(Buffer(device, nbytes, "window_shown", host=True))
        except DeviceLost:
            raise
        except UserError as error:
            self._end(error)

    @property
    def batch_seconds(self) -> float:
        """How long a batch may take while the window is seen; one step where that was asked for."""
        return 0.0 if self._stepping else REFRESH

    @property
    def shown(self) -> bool:
        return self.window is not None and self.window.shown

    @property
    def stopped(self) -> bool:
        """Whether the fit is to end here."""
        return self.window is not None and "stop" in self.interface.ui.asked

    def turn(self, session: FitSession, curve: dict[str, list]) -> None:
        """Handles events, and shows `target` where a frame is due and the last one is on the
        screen; in a pause until that ends. curve: step and psnr of batches."""
        self._stepping = False
        self._look_after(session, curve)
        while self.window is not None and self.inputs.paused and not self.stopped:
            if self.inputs.steps:
                self._stepping, self.inputs.steps = True, 0
                return
            self._look_after(session, curve, INTERFACE)

    def _look_after(self, session: FitSession, curve: dict[str, list], wait: float = 0.0) -> None:
        if self.window is None:
            return None
        self.window.poll(wait)
        if self.window.closing or self.inputs.closing:
            return self.close()
        try:
            self._tell(session, curve)
            self._show(session, self.window)
        except DeviceLost:
            raise
        except UserError as error:
            self._end(error)

    def _tell(self, session: FitSession, curve: dict[str, list]) -> None:
        """What the panel shows."""
        told = self.facts.training
        if told is None or told.step == session.step:
            return
        told.step, told.pace = session.step, 1 / max(session.runner.step_seconds, 1e-6)
        told.left = (told.steps - told.step) / told.pace
        told.memory = sum(session.memory().values())
        if curve["step"]:
            told.psnr = curve["psnr"][-1]
            told.psnrs = np.column_stack([curve["step"], curve["psnr"]])

    def _show(self, session: FitSession, shown: window.Window) -> None:
        face = self.face
        if self._flying and self._fence.done():
            self._flying = False
            self._fence.reset()
            self.frames += 1
            size = self._image.width, self._image.height
            face.take(self._copy, self._image.width, self._image.height)
            self._shown = Shown(region=size, render=size, scene=size)
            face.wake()
        width, height = shown.size
        region = max(1, width - self.interface.side), max(1, height)
        due = time.perf_counter() - self._drawn_at >= REFRESH
        if due and not self._flying and shown.shown:
            self._draw(session, region)
        if self._shown.region != (1, 1) and face.due(changed=False, lively=True):
            face.paint(region, self._shown)

    def _draw(self, session: FitSession, size: tuple[int, int]) -> None:
        drawn = (session.resources["target"], session.resources["frame"], size)
        was = self._drawn
        if was is None or size != was[2] or drawn[0] is not was[0] or drawn[1] is not was[1]:
            self._record(session, size)
            self._drawn = drawn
        submit(session.device, [self._commands], self._fence)
        self._flying, self._drawn_at = True, time.perf_counter()

    def _record(self, session: FitSession, size: tuple[int, int]) -> None:
        """No picture may be in flight."""
        self._forget()
        self._place.upload(contract.struct("Window", size=size))
        rgba8, device = FORMATS["unorm8"], session.device
        self._image = self._picture.add(Image(device, *size, rgba8.vk, rgba8.texel, "screen"))
        self._copy = self._picture.add(Buffer(device, size[0] * size[1] * 4, "captured"))
        resources = {**session.resources, "window_shown": self._place, "screen": self._image}
        resources["captured"] = self._copy
        self._commands = self._picture.add(Recorder(device, resources))
        self._commands.run(build(device, FIT_SCREEN_PASS), threads=size)
        self._commands.copy("screen", "captured")
        self._commands.end()

    def _forget(self) -> None:
        """The window's frames take no more copies of the picture."""
        self.face.forget()
        self._picture.destroy()
        self._drawn = None

    def _end(self, error: UserError) -> None:
        tqdm.write(f"note: the window is closed: {error}. The fit continues")
        self.close()

    def close(self) -> None:
        """Before the session that is shown is destroyed. May be called again."""
        if self._flying:
            with suppress(DeviceLost):
                self._fence.wait()
            self._flying = False
        self._parts.destroy()
        self._picture.destroy()  # which the window's frames copied
        if self.window is not None:
            self.window.destroy()
        self.window, self._parts, self._shown = None, Owned(), Shown()
