"""The picture in the window, drawn on the GPU: splats by a rasterizer of its own over given
parameters, photograph, text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.pipelines import build
from hardsplat.model.camera import Camera
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.hardware.rasterizer import TIMED, HardwareRasterizer
from hardsplat.raster.hardware.rows import HardwareOptions, Rows
from hardsplat.raster.pictures import SCREEN_PASS, allocate_show, palette_data, record_show
from hardsplat.raster.renderer import camera_data, frame_data
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import PICTURES
from hardsplat.view.overlay import COLUMNS, ROWS, atlas, bar_of, grid, packed, panel

REFRESH = 1 / 30  # s between frames, at least
COARSE_MS = 50.0, 200.0  # frames that take longer are drawn in larger pixels while they move
# px by which the canvas grows with the window, so that dragging its edge rarely makes new pipelines
STEP = 128
SAMPLES = 65536  # numbers that the span of a palette is taken from


def coarse(ms: float) -> int:
    """Sides of the pixels to draw in while a camera moves, px. ms: of a frame in full."""
    return 2 ** sum(ms > limit for limit in COARSE_MS)


@dataclass(frozen=True)
class Look:
    """How splats are drawn, as their training or file says. sh_degree: highest band there is."""

    options: HardwareOptions
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    near_plane: float = 0.01
    sh_degree: int = 3


@dataclass(frozen=True)
class Layout:
    """What lies where, px. render: of the upper left of the window, in pixels `scale` px wide.

    photo: the photograph, and its share. frame: what a photograph next to the render shows of it,
    beyond which it is darker.
    """

    size: tuple[int, int]
    render: tuple[int, int]
    scale: int = 1
    photo: tuple[int, int, int, int] = (0, 0, 0, 0)
    share: float = 1.0
    frame: tuple[int, int, int, int] = (0, 0, 0, 0)


def untimed(device: Device, options: HardwareOptions) -> HardwareOptions:
    """The options with the first row that runs for each that is `auto`: only the forward draw
    counts here. Images from lists would need capacity, which a window has no time to make."""
    if options.blending == "lists":
        options = replace(options, blending="auto")
    first = Rows.first(device, options, by_unit=True).names
    rows: dict[str, Any] = {name: first[name] for name in ("blending", *TIMED)}
    return replace(options, **rows)


class Screen:
    """Draws frames into `screen`, an RGBA8 image at least as large as the window. Only one may be
    in flight: what it reads lies in host memory.

    font: px. captured: pixels() finds a copy in host memory, which waits for nothing.
    """

    def __init__(self, device: Device, look: Look, font: int, captured: bool = False):
        self.device, self.look, self._captured = device, look, captured
        self._options = untimed(device, look.options)
        coverage, self._cell = atlas(font)
        sizes = dict.fromkeys(("camera", "frame", "overlay", "photos"), 1)
        sizes |= {"glyphs": -(-coverage.size // 4), "text": ROWS * COLUMNS}
        self._own = {name: self._host(name, count) for name, count in sizes.items()}
        self._own["glyphs"].upload(packed(coverage))
        self._raster: HardwareRasterizer | None = None
        self._recorder: Recorder | None = None
        self._canvas: dict[str, Buffer | Image] = {}
        self._drawn: tuple = (None, None, None)

    def _host(self, name: str, count: int) -> Buffer:
        """Rows of the contract in host memory."""
        return Buffer(self.device, count * contract.itemsize(name), name, host=True)

    @property
    def commands(self) -> Recorder:
        """A frame of what place() last said."""
        if self._recorder is None:
            raise RuntimeError("there is nothing to draw before fit()")
        return self._recorder

    @property
    def image(self) -> Image:
        return self._screen

    def fit(self, parameters: Parameters, size: tuple[int, int], picture: str) -> bool:
        """Makes buffers and commands for a window of this size, or keeps those there are. Whether
        they are new.

        parameters: as they are now; a training makes room for more splats in them. Raises
        OutOfMemory with nothing drawn any more.
        """
        most = self.device.max_image
        width, height = (min(-(-max(side, 1) // STEP) * STEP, most) for side in size)
        drawn = (parameters, (parameters.capacity, width, height), picture)
        if drawn[0] is self._drawn[0] and drawn[1:] == self._drawn[1:]:
            return False
        self._release()
        row = PICTURES[picture]
        format = self._options.format if self._options.format in row.formats else row.formats[0]
        options, device = replace(self._options, format=format), self.device
        self._raster = HardwareRasterizer(device, parameters, width, height, options, sink=None)
        self._canvas = allocate_show(device, width, height)
        for name in ("palette", "values"):
            self._canvas.pop(name).destroy()
        palette = self._canvas["palette"] = self._host("palette", 1)
        palette.upload(palette_data(picture))
        self._values = self._canvas["values"] = self._host("values", width * height)
        rgba8 = FORMATS["unorm8"]
        self._screen = Image(device, width, height, rgba8.vk, rgba8.texel, "screen")
        self._canvas["screen"] = self._screen
        if self._captured:
            self._copy = Buffer(device, width * height * 4, "captured", host=True)
            self._canvas["captured"] = self._copy
        self._record(self._raster, picture)
        self._drawn = drawn
        return True

    def _record(self, raster: HardwareRasterizer, picture: str) -> None:
        width, height = raster.width, raster.height
        if self._recorder is not None:
            self._recorder.destroy()
        resources = {**raster.resources, **self._canvas, **self._own}
        self._recorder = recorder = Recorder(self.device, resources, timed=True)
        raster.record_forward(recorder, picture)
        record_show(recorder, picture, width, height)
        recorder.run(build(self.device, SCREEN_PASS), threads=(width, height))
        if self._captured:
            recorder.copy("screen", "captured")
        recorder.end()

    def place(self, camera: Camera, sh_degree: int, layout: Layout, lines: list[str]) -> None:
        """What the next frame shows. camera: of the render, layout.render / layout.scale px. lines:
        text. No frame may be in flight."""
        own, data = self._own, np.zeros((), contract.dtype("Overlay"))
        own["camera"].upload(camera_data(camera))
        own["frame"].upload(frame_data(sh_degree, self.look.background, self.look.near_plane))
        data["size"], data["render"], data["scale"] = layout.size, layout.render, layout.scale
        data["photo_at"], data["photo_size"] = layout.photo[:2], layout.photo[2:]
        data["photo_share"] = layout.share
        data["frame_at"], data["frame_size"] = layout.frame[:2], layout.frame[2:]
        data["cell"], data["grid"] = self._cell, (COLUMNS, ROWS)
        lines = panel(lines)
        if bar := bar_of(lines):
            width, height = self._cell
            edge = max(1, height // 6)
            data["legend_at"] = bar[0] * width, bar[1] * height + edge
            data["legend_size"] = bar[2] * width, height - 2 * edge
        own["overlay"].upload(data)
        own["text"].upload(grid(lines))

    def photograph(self, words: np.ndarray) -> None:
        """words: as hardsplat.train.step.photos.pack makes them, of the size that a Layout then
        names. No frame may be in flight."""
        if words.nbytes > self._own["photos"].nbytes:
            self._own["photos"].destroy()
            self._own["photos"] = Buffer(self.device, words.nbytes, "photos", host=True)
            if self._raster is not None:
                self._record(self._raster, self._drawn[2])
        self._own["photos"].upload(words)

    def respan(self, camera: Camera) -> tuple[float, float] | None:
        """Spreads the palette over the numbers of the last frame, which must be done, for the next;
        the numbers at its ends, None without any."""
        picture = self._drawn[2]
        row = PICTURES[picture]
        if not row.numbers or row.range is not None or self._raster is None:
            return row.range
        width, height = self._raster.width, self._raster.height
        values = self._values.array(np.float32)[: width * height].reshape(height, width)
        values = values[: camera.height, : camera.width]
        step = max(1, int(np.sqrt(values.size / SAMPLES)))
        values = values[::step, ::step]
        values = values[np.isfinite(values) & (values > 0)]
        if not values.size:
            return None
        low, high = (float(v) for v in np.quantile(values, (0.02, 0.98)))
        self._canvas["palette"].upload(palette_data(picture, (low, high)))
        return low, high

    def pixels(self, width: int, height: int) -> np.ndarray:
        """(height, width, 3) uint8 of the last frame, which must be done."""
        if self._captured:
            texels = self._copy.array().reshape(self._screen.height, self._screen.width, 4)
        else:
            texels = self.image.download()
        return np.ascontiguousarray(texels[:height, :width, :3])

    @property
    def format(self) -> str:
        """The format of the render target."""
        return str(self._raster.rows.names["format"]) if self._raster else self._options.format

    def ms(self) -> float:
        """Milliseconds on the GPU of the last frame, which must be done; 0 where the device has no
        clock."""
        return sum(self.commands.times().values())

    def _release(self) -> None:
        for part in (self._recorder, self._raster, *self._canvas.values()):
            if part is not None:
                part.destroy()
        self._recorder, self._raster, self._canvas, self._drawn = None, None, {}, (None, None, None)

    def destroy(self) -> None:
        """No frame may be in flight."""
        self._release()
        for buffer in self._own.values():
            buffer.destroy()
