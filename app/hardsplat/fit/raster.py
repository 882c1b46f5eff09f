"""Rasterizers of an image fit: those of app/hardsplat/raster and the published ones.

All draw `blobs` as splats2d, so image and gradients are the same but for rounding.
"""

from __future__ import annotations

from dataclasses import replace

from hardsplat.base.errors import UserError
from hardsplat.fit.blobs import BlobBuffers
from hardsplat.fit.flat import Flat
from hardsplat.fit.walk import FitOptions, WalkRasterizer
from hardsplat.gpu.device.context import Device
from hardsplat.raster.core.resolve import name_of, resolve
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.hardware.rasterizer import HardwareRasterizer
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.tiled.rasterizer import TiledRasterizer
from hardsplat.raster.tiled.rows import TiledOptions
from hardsplat.tables.fits import FIT_RASTERS


def rasterizer_of(device: Device, wanted: str) -> str:
    """The row of FIT_RASTERS, for 'auto' the first that runs here. Raises UserError."""
    row = resolve(device, "rasterizer of blobs", FIT_RASTERS, wanted, "--rasterizer")
    return name_of(FIT_RASTERS, row)


# behind a projection that is a Flat
FlatRasterizer = WalkRasterizer | TiledRasterizer | HardwareRasterizer


def open_rasterizer(
    device: Device,
    parameters: BlobBuffers,
    width: int,
    height: int,
    options: FitOptions,
    sink: Sink,
) -> FlatRasterizer:
    """The rasterizer that `options` name. Raises UserError for what the device cannot run,
    OutOfMemory with nothing allocated."""
    name = rasterizer_of(device, options.rasterizer)
    row = FIT_RASTERS[name]
    reduction = row.reductions[0] if options.reduction == "auto" else options.reduction
    if reduction not in row.reductions:
        raise UserError(f"--reduction {reduction}: {name} has {', '.join(row.reductions)}")
    drawn = device, parameters, width, height
    if row.backend == "walk":
        wanted = replace(options, rasterizer=name, reduction=reduction)
        return WalkRasterizer(*drawn, wanted, sink)
    if row.backend == "tiled":
        tiled = TiledOptions(tile_backward=reduction, atomics=options.atomics)
        return TiledRasterizer(*drawn, tiled, sink, Flat(sink))
    hardware = HardwareOptions(format=options.format, reduction=reduction, atomics=options.atomics)
    return HardwareRasterizer(*drawn, hardware, sink, Flat(sink))
