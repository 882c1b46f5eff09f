"""Pictures of one model, drawn one after the other: a rasterizer without a backward pass, and a
recording a picture; and legends of pictures that represent numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont  # fonts, for which imageio has nothing

from hardsplat.base.errors import undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import Owned, buffer_in, destroy_all
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.frame import camera_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.pictures import allocate_show, palette_data, record_show
from hardsplat.render.streaming import StreamedSplats
from hardsplat.tables.pictures import PICTURES

UNITS = {"depth": "depth [world units]", "count": "splats a pixel", "median": "median depth"}
UNITS |= {"surface": "depth of the surface"}
SMALLEST = 240, 120  # px of a picture that is large enough for one


class Legend:
    """picture: of UNITS. span: numbers with the first and the last colour. width, height: px of the
    pictures it is put on."""

    def __init__(self, picture: str, span: tuple[float, float], width: int, height: int):
        self.text = f"{picture} from {span[0]:.4g} to {span[1]:.4g}"
        large = width >= SMALLEST[0] and height >= SMALLEST[1]
        self._box = _drawn(picture, span, width, height) if large else None

    def put_on(self, image: np.ndarray) -> np.ndarray:
        """A copy of (H, W, 3 or 4) uint8 with the legend in its lower left corner, opaque; the
        image itself where it is too small for one."""
        if self._box is None:
            return image
        out, (h, w) = image.copy(), self._box.shape[:2]
        margin = min(h // 4, (out.shape[1] - w) // 2)
        corner = out[out.shape[0] - h - margin : out.shape[0] - margin, margin : margin + w]
        corner[..., :3], corner[..., 3:] = self._box, 255
        return out


def _drawn(picture: str, span: tuple[float, float], width: int, height: int) -> np.ndarray:
    """(h, w, 3) uint8: the numbers of both ends around their unit, and the bar below; at most nine
    tenths as wide as the picture."""
    import matplotlib  # takes a while
    from matplotlib import colormaps

    low, high = (f"{number:.3g}" for number in span)
    file = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    for px in range(min(max(11, height // 45), 40), 0, -1):
        font, pad = ImageFont.truetype(file, px), px // 2 + 1
        length = round(max(14 * px, font.getlength(low + UNITS[picture] + high) + 2 * px))
        if length + 2 * pad <= 0.9 * width:
            break
    line = sum(font.getmetrics())
    box = Image.new("RGB", (length + 2 * pad, line + px + 2 * pad), (24, 24, 24))
    draw = ImageDraw.Draw(box)
    for share, anchor, text in ((0, "la", low), (0.5, "ma", UNITS[picture]), (1, "ra", high)):
        at = pad + share * length, pad // 2
        draw.text(at, text, fill=(240, 240, 240), font=font, anchor=anchor)
    out, palette = np.array(box), colormaps[PICTURES[picture].palette]
    bar = palette(np.linspace(0, 1, length), bytes=True)[:, :3]
    out[line + pad : line + pad + px, pad : pad + length] = bar
    return out


@dataclass
class Painter:
    """gaussians: all of them, or those that each camera sees. pictures: of
    app/hardsplat/tables/pictures.py. width, height: of the largest camera.
    transparent: straight alpha instead of a background.

    frame: a contract Frame struct. Raises UserError for what the device cannot run, OutOfMemory
    with nothing allocated.
    """

    device: Device
    backend: type[Rasterizer]
    options: Any
    gaussians: InitVar[Gaussians | StreamedSplats]
    width: int
    height: int
    pictures: Sequence[str]
    frame: np.ndarray
    transparent: bool = False

    def __post_init__(self, gaussians: Gaussians | StreamedSplats):
        device, width, height = self.device, self.width, self.height
        self._parts = Owned()
        self._recorders: dict[str, Recorder] = {}
        with undone(self.destroy):
            self._streamed = gaussians if isinstance(gaussians, StreamedSplats) else None
            if isinstance(gaussians, StreamedSplats):
                parameters = Parameters(device, gaussians.capacity, gaussians.sh_degree)
                gaussians.begin(self._parts.add(parameters))
            else:
                parameters = self._parts.add(Parameters.of(device, gaussians))
            self._parameters = parameters
            raster = self.backend(device, parameters, width, height, self.options, sink=None)
            self.raster = self._parts.add(raster)
            self._shown = allocate_show(device, width, height)
            self._parts.add_all(self._shown.values())
            self._palettes = {picture: palette_data(picture) for picture in self.pictures}
            self._record()
            self.resources["frame"].upload(self.frame)

    def _record(self) -> None:
        destroy_all(self._recorders)
        self._recorders, self.resources = {}, {**self.raster.resources, **self._shown}
        for picture in self._palettes:
            recorder = self._recorders[picture] = Recorder(self.device, self.resources)
            self.raster.record_forward(recorder, picture)
            record_show(recorder, picture, self.width, self.height, self.transparent)
            recorder.end()

    def span(self, picture: str, low: float, high: float) -> None:
        """The numbers that have the first and the last colour of the palette from here on."""
        self._palettes[picture] = palette_data(picture, (low, high))

    def draw(self, picture: str, camera: Camera) -> np.ndarray:
        """(camera.height, camera.width, 4) uint8 RGBA."""
        self._run(picture, camera)
        return self._shown["shown"].download()[: camera.height, : camera.width]

    def values(self, picture: str, camera: Camera, drawn: bool = False) -> np.ndarray:
        """(camera.height, camera.width) float32: depth, opacity or count, 0 where there is nothing.
        drawn: of what draw() has just drawn."""
        if not drawn:
            self._run(picture, camera)
        buffer = buffer_in(self._shown, "values")
        values = buffer.download(np.float32, self.width * self.height)
        return values.reshape(self.height, self.width)[: camera.height, : camera.width]

    def _run(self, picture: str, camera: Camera) -> None:
        if self._streamed:
            self._streamed.show(self._parameters, camera)
        self.resources["camera"].upload(camera_data(camera))
        self.resources["palette"].upload(self._palettes[picture])
        self._recorders[picture].run_once()
        if self.raster.reserve_pairs():
            self._record()
            self._recorders[picture].run_once()

    def destroy(self) -> None:
        destroy_all(self._recorders)
        self._recorders = {}
        self._parts.destroy()
