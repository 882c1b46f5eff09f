"""Rasterizers by name. A backend is one module and one row here."""

from collections.abc import Callable
from dataclasses import dataclass

from app.raster.hardware import HardwareOptions, HardwareRasterizer, Rows
from app.raster.tiled import BYTES_PER_SPLAT, TiledOptions, TiledRasterizer, TiledRows


@dataclass(frozen=True)
class Backend:
    rasterizer: Callable
    options: Callable
    resolve: Callable  # (device, options): UserError for what the device cannot run
    note: str
    bytes_per_splat: int = 0  # in training, besides those of app.contract.bytes_per_splat


BACKENDS = {
    "hardware": Backend(HardwareRasterizer, HardwareOptions, Rows.resolve, "quads through the graphics pipeline, gradients reduced in the fragment shader"),
    "tiled": Backend(TiledRasterizer, TiledOptions, TiledRows.resolve, "splats listed by tile of 16x16 pixels, in compute shaders alone", BYTES_PER_SPLAT),
}
