"""`hardsplat fit --view`: a window with what a fit drew last, and the panel of its run. It answers
between batches and waits for nothing but a pause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.fit.session import FitSession
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.pipelines import build
from hardsplat.model.camera import Camera
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.pictures import FIT_SCREEN_PASS
from hardsplat.tables.formats import FORMATS
from hardsplat.view.gui.style import SIDE
from hardsplat.view.gui.ui import TrainingFacts
from hardsplat.view.splats.controls import Controls
from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.splats.screen import REFRESH, Appearance, Screen
from hardsplat.view.viewer import RunWindow, Viewer

NARROW = 480  # px of an image that is smaller than the panel beside it should be


class FitScreen(Screen):
    """Pictures of what a fit drew last, in place of those of splats."""

    def _key(self, source: Any, size: tuple[int, int], picture: str) -> tuple:
        return source.resources["target"], source.resources["frame"], size, picture

    def _make(self, source: Any, size: tuple[int, int]) -> None:
        rgba8, self._window = FORMATS["unorm8"], self._host("window_shown", 1)
        screen = Image(self.device, *size, rgba8.vk, rgba8.texel, "screen")
        self._canvas = {"screen": screen, "window_shown": self._window}
        self._show(screen)
        resources = {**source.resources, **self._canvas}
        self.commands = self._parts.add(Recorder(self.device, resources, timed=True))
        self.commands.run(build(self.device, FIT_SCREEN_PASS), threads=size)
        self.commands.copy("screen", "captured")
        self.commands.end()

    def place(self, camera: Camera, sh_degree: int) -> None:
        size = camera.width, camera.height
        self._window.upload(contract.struct("Window", size=size))


class FitPreview(RunWindow):
    """size: by default that of the image and room for the panel; a narrow window has none."""

    continues = "The fit continues"
    _stepping = False

    def open(self, device: Device, session: FitSession, title: str) -> None:
        eye, look = Camera(np.eye(4), np.eye(3), 1, 1), Appearance(HardwareOptions())
        inputs = Inputs(Controls(eye, (0, -1, 0), (0, 0, 1)), can_pause=True, parts=("fit",))
        room = max(session.width, NARROW) + round(SIDE), max(session.height, NARROW)
        with self.guarded():
            self.viewer = Viewer(
                device, f"{title} - hardsplat", look, inputs, Path(), True, self._size,
                make_screen=FitScreen, room=room,
            )  # fmt: skip
            self.viewer.facts.training = TrainingFacts(steps=session.config.max_steps)

    @property
    def batch_seconds(self) -> float:
        """How long a batch may take while the window is seen; one step where that was asked for."""
        return 0.0 if self._stepping else REFRESH

    @property
    def stopped(self) -> bool:
        """Whether the fit is to end here."""
        return self.viewer is not None and "stop" in self.viewer.asked

    def turn(self, session: FitSession, curve: dict[str, list]) -> None:
        """Handles events, and shows `target` where a frame is due and the last one is on the
        screen; in a pause until that ends. curve: step and psnr of batches."""
        viewer = self.viewer
        if viewer is None or viewer.closed:
            return
        self._tell(viewer, session, curve)
        drawn: Any = session
        self._stepping = False
        with self.guarded():
            viewer.turn(drawn, 0)
            while viewer.paused and not self.stopped:
                if viewer.inputs.steps:
                    self._stepping, viewer.inputs.steps = True, 0
                    return
                viewer.turn(drawn, 0, wait=True)

    def _tell(self, viewer: Viewer, session: FitSession, curve: dict[str, list]) -> None:
        told = viewer.facts.training
        if told is None or told.step == session.step:
            return
        told.step, told.pace = session.step, 1 / max(session.runner.step_seconds, 1e-6)
        told.left = (told.steps - told.step) / told.pace
        told.memory = sum(session.memory().values())
        if curve["step"]:
            told.psnr = curve["psnr"][-1]
            told.psnrs = np.column_stack([curve["step"], curve["psnr"]])
