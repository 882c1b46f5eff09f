"""Rasterizers by name. A backend is one module and one row here."""

from collections.abc import Callable
from dataclasses import dataclass

from app.raster.hardware import HardwareOptions, HardwareRasterizer


@dataclass(frozen=True)
class Backend:
    rasterizer: Callable
    options: Callable
    note: str


BACKENDS = {
    "hardware": Backend(HardwareRasterizer, HardwareOptions, "quads through the graphics pipeline, gradients reduced in the fragment shader"),
}
