"""Draws the interface: all triangles of a frame by one draw, out of buffers in host memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned
from hardsplat.gpu.passes.declared import DrawPass
from hardsplat.gpu.passes.pipelines import build
from hardsplat.tables.formats import FORMATS

RGBA8 = FORMATS["unorm8"]
TEXTURES = ("gui_atlas", "gui_scene", "gui_photo")
BUFFERS = ("gui_vertices", "gui_corners", "gui_commands")
FIRST = contract.CONSTANTS["PICTURE_CORNERS"]
GUI_PASS = DrawPass(
    "gui",
    "gui/gui.vert",
    "gui/gui.frag",
    reads=("window_shown", *BUFFERS, *TEXTURES, "screen"),
    writes=("screen",),
    attachment="screen",
    format=RGBA8.vk,
    blend=True,
)
PICTURES_PASS = replace(GUI_PASS, name="gui pictures", spec={"PICTURES": True})
EMPTY = 0.12  # grey where nothing is drawn
GROWTH = 1.5  # of buffers that are full


@dataclass(frozen=True)
class GuiFrame:
    """A frame of the interface: rows of the contract. corners: (N, 2) uint32, those of pictures
    first."""

    vertices: np.ndarray
    corners: np.ndarray
    commands: np.ndarray


class Texture:
    """An RGBA8 image that a buffer is copied to: the host's, which `set` fills, or a given one."""

    def __init__(self, device: Device, name: str):
        self.device, self.name, self.stale = device, name, False
        self.image = Image(device, 1, 1, RGBA8.vk, RGBA8.texel, name)
        self._host: Buffer | None = None
        self._source: Buffer | None = None  # of the copy
        self._copy: Recorder | None = None

    def set(self, texels: np.ndarray) -> None:
        """texels: (height, width, 4) uint8. No frame may be in flight."""
        height, width = texels.shape[:2]
        if self._host is None or self._host.nbytes < texels.nbytes:
            self.drop()
            if self._host is not None:
                self._host.destroy()
            self._host = Buffer(self.device, texels.nbytes, f"{self.name} host", host=True)
        self._host.upload(texels)
        self.take(self._host, width, height)

    def take(self, source: Buffer, width: int, height: int) -> None:
        """Has the next frame copy what `source` then holds, RGBA8 row by row. No frame may be in
        flight."""
        if (height, width) != (self.image.height, self.image.width):
            self.drop()
            self.image.destroy()
            self.image = Image(self.device, width, height, RGBA8.vk, RGBA8.texel, self.name)
        if source is not self._source:
            self.drop()
            self._source = source
            self._copy = Recorder(self.device, {"source": source, "image": self.image})
            self._copy.copy("source", "image")
            self._copy.end(for_host=False)
        self.stale = True

    def drop(self) -> None:
        """Forgets the source, which may go then."""
        if self._copy is not None:
            self._copy.destroy()
        self._copy = self._source = None
        self.stale = False

    @property
    def copies(self) -> list[Recorder]:
        """What brings the image up to date, which it then is."""
        stale, self.stale = self.stale, False
        return [self._copy] if stale and self._copy else []

    def destroy(self) -> None:
        self.drop()
        for part in (self._host, self.image):
            if part is not None:
                part.destroy()
        self._host = None


class Canvas:
    """The interface as an RGBA8 image of the window's size. Only one frame may be in flight: what
    it reads lies in host memory."""

    def __init__(self, device: Device):
        self.device, self._parts = device, Owned()
        self.textures = {name: self._parts.add(Texture(device, name)) for name in TEXTURES}
        self._buffers: dict[str, Buffer] = {}
        for name, count in dict.fromkeys(BUFFERS, 4096).items():
            self._buffers[name] = self._host(name, count)
        for name in ("window_shown", "indirect"):
            self._buffers[name] = self._host(name, 1)
        self._screen: Image | None = None
        self._recorder: Recorder | None = None
        self._recorded: tuple = ()  # what the commands depend on

    def _host(self, name: str, count: int) -> Buffer:
        return Buffer(self.device, count * contract.itemsize(name), name, host=True)

    @property
    def image(self) -> Image:
        if self._screen is None:
            raise RuntimeError("there is no image before draw()")
        return self._screen

    def draw(
        self, drawing: GuiFrame, size: tuple[int, int], place: tuple[int, int], **shown
    ) -> list[Recorder]:
        """The commands of a frame of that size, px, of which the scene has the upper left `place`.
        shown: members of the contract's Window. No frame may be in flight."""
        if self._screen is None or (self._screen.width, self._screen.height) != size:
            if self._screen is not None:
                self._screen.destroy()
            self._screen = Image(self.device, *size, RGBA8.vk, RGBA8.texel, "screen")
        rows = dict(zip(BUFFERS, (drawing.vertices, drawing.corners, drawing.commands)))
        for name, values in rows.items():
            if values.nbytes > self._buffers[name].nbytes:
                self._buffers[name].destroy()
                self._buffers[name] = self._host(name, int(GROWTH * len(values)))
            self._buffers[name].upload(values)
        self._buffers["window_shown"].upload(contract.struct("Window", size=size, **shown))
        command = contract.struct("Indirect", draw=(len(drawing.corners) - FIRST, 1, FIRST, 0))
        self._buffers["indirect"].upload(command)
        copies = [copy for texture in self.textures.values() for copy in texture.copies]
        return [*copies, self._commands(shown["scene"], place)]

    def _commands(self, scene: tuple[int, int], place: tuple[int, int]) -> Recorder:
        """The scene by a copy, which costs a CPU much less than a draw, and the rest over it."""
        images = {name: texture.image for name, texture in self.textures.items()}
        resources: dict[str, Buffer | Image] = {**self._buffers, **images, "screen": self.image}
        depends = scene, place, *resources.values()
        if self._recorder is not None:
            if depends == self._recorded:
                return self._recorder
            self._recorder.destroy()
        self._recorder = recorder = Recorder(self.device, resources)
        self._recorded, (width, height) = depends, place
        recorder.spoil("screen", self.image, EMPTY)
        covered = min(width, self.image.width), min(height, self.image.height)
        recorder.stretch("gui_scene", "screen", scene, covered)
        recorder.run(build(self.device, PICTURES_PASS), threads=(FIRST,))
        recorder.run(build(self.device, GUI_PASS), indirect="draw")
        return recorder.end()

    def destroy(self) -> None:
        """No frame may be in flight. May be called again."""
        for part in (self._recorder, self._screen, *self._buffers.values()):
            if part is not None:
                part.destroy()
        self._recorder, self._screen, self._buffers = None, None, {}
        self._parts.destroy()
