"""Pictures of splats for windows and browsers, drawn on the GPU by a rasterizer of their own over
given parameters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned, destroy_all
from hardsplat.model.camera import Camera
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import pairs_wanted
from hardsplat.raster.hardware.rasterizer import TIMED, HardwareRasterizer
from hardsplat.raster.hardware.rows import HardwareOptions, Rows
from hardsplat.raster.pictures import allocate_show, palette_data, record_show
from hardsplat.raster.renderer import camera_data, frame_data
from hardsplat.tables.hardware import BLENDINGS
from hardsplat.tables.pictures import PICTURES

REFRESH = 1 / 30  # s between frames, at least
COARSE_MS = 50.0, 200.0  # frames that take longer are drawn in larger pixels while they move
# px by which the canvas grows with the window, so that dragging its edge rarely makes new pipelines
STEP = 128
SAMPLES = 65536  # numbers that the span of a palette is taken from


def coarse(ms: float) -> int:
    """Sides of the pixels to draw in while a camera moves, px. ms: of a frame in full."""
    return 2 ** sum(ms > limit for limit in COARSE_MS)


@dataclass(frozen=True)
class Appearance:
    """How splats are drawn, as their training or file says. sh_degree: highest band there is.
    splat_scale: times their own size."""

    options: HardwareOptions
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    near_plane: float = 0.01
    sh_degree: int = 3
    splat_scale: float = 1.0


def untimed(device: Device, options: HardwareOptions) -> HardwareOptions:
    """The options with the first row that runs for each that is `auto`: only the forward draw
    counts here. Raises UserError for what the device cannot run."""
    first = Rows.first(device, options, by_unit=True).names
    rows: dict[str, Any] = {name: first[name] for name in ("blending", *TIMED)}
    return replace(options, **rows)


def in_order(device: Device, options: HardwareOptions) -> HardwareOptions:
    """The options with a blending front to back: the first that runs here, or one that does not."""
    row, found = options.blending_row, options
    if row is not None and row.ordered:
        return options
    for name in [name for name, row in BLENDINGS.items() if row.ordered]:
        found = replace(options, blending=name, ordering="auto", segments=1)
        with suppress(UserError):
            Rows.first(device, found)
            break
    return found


class Screen:
    """Draws pictures into `image`, RGBA8 and at least as large as asked for. Only one may be in
    flight: what it reads lies in host memory.

    look: of the next picture; may be changed. captured: `copy` has the picture, too; in host
    memory, where texels() then waits for nothing, or with "device" on the device. picture: that
    fit() was last called for. span: the numbers at the ends of the palette, None without any.
    commands: a picture of what place() last said. All but `look` is there from fit() on.
    """

    image: Image
    copy: Buffer
    commands: Recorder

    def __init__(self, device: Device, look: Appearance, captured: str = ""):
        self.device, self.look, self._captured = device, look, captured
        self._own = {name: self._host(name, 1) for name in ("camera", "frame")}
        self._seen = Buffer(device, contract.itemsize("counts"), "counts_seen", host=True)
        self._own["counts_seen"] = self._seen
        self._raster: HardwareRasterizer | None = None
        self._canvas: dict[str, Buffer | Image] = {}
        self._drawn: tuple[Any, tuple] = (None, ())
        self._parts = Owned()
        self.picture = "image"
        self.span: tuple[float, float] | None = None

    def _host(self, name: str, count: int) -> Buffer:
        return Buffer(self.device, count * contract.itemsize(name), name, host=True)

    def _key(self, parameters: Parameters, size: tuple[int, int], picture: str) -> tuple:
        most = self.device.max_image
        sides = (min(-(-max(side, 1) // STEP) * STEP, most) for side in size)
        return parameters.capacity, *sides, picture, self.look.options

    def fits(self, parameters: Parameters, size: tuple[int, int], picture: str) -> bool:
        """Whether fit() would change nothing."""
        drawn = self._key(parameters, size, picture)
        return self._drawn[0] is parameters and self._drawn[1] == drawn

    def fit(self, parameters: Parameters, size: tuple[int, int], picture: str) -> None:
        """Makes buffers and commands for pictures of this size, or keeps those there are.

        parameters: as they are now; a training makes room for more splats in them. Raises UserError
        for a look that the device cannot draw, OutOfMemory; nothing is drawn any more then.
        """
        if self.fits(parameters, size, picture):
            return
        drawn = self._key(parameters, size, picture)
        self._release()
        self.picture = picture
        self._make(parameters, size)
        self._drawn = parameters, drawn

    def _make(self, parameters: Parameters, size: tuple[int, int]) -> None:
        """Makes buffers and commands for `picture`, in place of none."""
        width, height = self._key(parameters, size, self.picture)[1:3]
        row, options = PICTURES[self.picture], self.look.options
        format = options.format if options.format in row.formats else row.formats[0]
        options = replace(options, format=format)
        if row.in_order:
            options = in_order(self.device, options)
        options = untimed(self.device, options)
        raster = HardwareRasterizer(self.device, parameters, width, height, options, sink=None)
        self._raster = self._parts.add(raster)
        canvas = allocate_show(self.device, width, height)
        for name in ("palette", "values"):
            canvas.pop(name).destroy()
        self._palette, self._values = self._host("palette", 1), self._host("values", width * height)
        self._palette.upload(palette_data(self.picture))
        self._canvas = canvas | {"palette": self._palette, "values": self._values}
        shown = canvas["shown"]
        assert isinstance(shown, Image)
        self._show(shown)
        self._record(raster)

    def _show(self, image: Image) -> None:
        """Has the canvas, and room for a copy of the image in it."""
        self.image, host = image, self._captured == "host"
        if self._captured:
            self.copy = Buffer(self.device, image.width * image.height * 4, "captured", host=host)
            self._canvas["captured"] = self.copy
        self._parts.add_all(self._canvas.values())

    def _record(self, raster: HardwareRasterizer) -> None:
        resources = {**raster.resources, **self._canvas, **self._own}
        self.commands = commands = self._parts.add(Recorder(self.device, resources, timed=True))
        raster.record_forward(commands, self.picture)
        if raster.lists:  # steps of a training, which may come next, count pairs of their own
            commands.copy("counts", "counts_seen")
        record_show(commands, self.picture, raster.width, raster.height)
        if self._captured:
            commands.copy("shown", "captured")
        commands.end()

    def place(self, camera: Camera, sh_degree: int) -> None:
        """What the next picture shows: as much of the upper left as the camera has px. No frame may
        be in flight."""
        look = self.look
        self._own["camera"].upload(camera_data(camera))
        frame = frame_data(
            sh_degree, look.background, look.near_plane, splat_scale=look.splat_scale
        )
        self._own["frame"].upload(frame)

    def complete(self) -> bool:
        """Whether the last frame, which must be done, has all splats. Else there is room for them
        now, and it must be drawn again."""
        raster, seen = self._raster, self._seen.array(contract.dtype("Counts"))[0]
        if raster is None or raster.lists is None or not raster.reserve_pairs(pairs_wanted(seen)):
            return True
        self._parts.drop(self.commands)
        self._record(raster)
        return False

    def respan(self, camera: Camera) -> bool:
        """Spreads the palette over the numbers of the last frame, which must be done, for the next;
        whether its ends, `span`, are others now."""
        before, self.span = self.span, self._ends(camera)
        if self.span not in (None, before):
            self._palette.upload(palette_data(self.picture, self.span))
        return self.span != before

    def _ends(self, camera: Camera) -> tuple[float, float] | None:
        """The numbers between which nearly all of a frame are; None without any."""
        row = PICTURES[self.picture]
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
        low, high = np.quantile(values, (0.02, 0.98)).tolist()
        return low, high

    def texels(self, width: int, height: int) -> np.ndarray:
        """(height, width, 4) uint8 of the last frame, which must be done."""
        if self._captured == "host":
            texels = self.copy.array().reshape(self.image.height, self.image.width, 4)
        else:
            texels = self.image.download()
        return np.array(texels[:height, :width])

    def pixels(self, width: int, height: int) -> np.ndarray:
        """(height, width, 3) uint8 of the last frame, which must be done."""
        return np.ascontiguousarray(self.texels(width, height)[..., :3])

    @property
    def rows(self) -> Mapping[str, str | int]:
        """The variants that draw, by setting."""
        return self._raster.rows.names if self._raster else {}

    def stages(self) -> dict[str, float]:
        """Milliseconds on the GPU by pass of the last frame, which must be done; empty where the
        device has no clock."""
        return self.commands.times()

    def _release(self) -> None:
        self._parts.destroy()
        self._raster, self._canvas, self._drawn, self.span = None, {}, (None, ()), None

    def destroy(self) -> None:
        """No frame may be in flight."""
        self._release()
        destroy_all(self._own)
