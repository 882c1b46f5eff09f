"""What trainings on a device found of its rasterizers, so that later ones time those that may win.

To time the others takes longer than all else that a training decides.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from hardsplat.base.version import __version__
from hardsplat.gpu.device import cache
from hardsplat.gpu.device.context import Device
from hardsplat.raster.core.choose import timing_enabled
from hardsplat.settings.learning import GradientSettings
from hardsplat.settings.rasterizers import RasterSettings

LOST = 10.0  # times the fastest: more than another scene or other programs explain
log = logging.getLogger("hardsplat")


def note_trial(
    device: Device, raster: RasterSettings, gradient: GradientSettings, ms: Mapping[str, float]
) -> None:
    """Keeps what steps took by rasterizer, milliseconds, with these settings."""
    known, best = slower(device, raster, gradient), min(ms.values())
    known |= {name: each / best for name, each in ms.items()}
    cache.remember(_path(device, raster, gradient), device.physical, slower=known)


def slower(device: Device, raster: RasterSettings, gradient: GradientSettings) -> dict[str, float]:
    """By rasterizer, how many times as long as the fastest it took in its last trial."""
    found = cache.remembered(_path(device, raster, gradient), "slower", float) or {}
    return {name: times for name, times in found.items() if isfinite(times)}


def worth_timing(
    device: Device, raster: RasterSettings, gradient: GradientSettings, names: Sequence[str]
) -> list[str]:
    """Those of the rasterizers that a training should time; the first alone where nothing is to be
    timed."""
    if not timing_enabled():
        return [*names[:1]]
    known = slower(device, raster, gradient) if len(names) > 1 else {}
    lost = {name: known[name] for name in names if known.get(name, 1.0) >= LOST}
    for name, times in lost.items():
        took = f"it took {times:.2g} times as long as another in an earlier training"
        log.debug("rasterizer %s: not timed, since %s", name, took)
    return [name for name in names if name not in lost] or [*names]


def _path(device: Device, raster: RasterSettings, gradient: GradientSettings) -> Path:
    words = __version__, device.name, device.physical.driver, repr(raster), repr(gradient)
    return cache.cache_file("variants", "trials", *words)
