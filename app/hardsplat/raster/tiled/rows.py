"""Options of the tiled rasterizer, and the registry rows that they name on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hardsplat.gpu.device.context import Device
from hardsplat.raster.core.resolve import resolve, runnable, threshold_of
from hardsplat.settings.rasterizers import Options
from hardsplat.tables.gradients import ATOMICS, TILE_BACKWARDS, Atomics, TileBackward

THRESHOLD = 8  # of tile_threshold, before others are timed


@dataclass(frozen=True)
class TiledOptions(Options):
    """Rows of the registries in app/hardsplat/tables; 'auto' takes the first row that the device
    can run."""

    tile_backward: str = "auto"
    # distwar: contributing lanes of 32 from which they are summed; 0: the fastest number
    tile_threshold: int = 0


@dataclass(frozen=True)
class TiledRows:
    """The registry rows that the rasterizer is made of, and their names there."""

    tile_backward: TileBackward
    atomics: Atomics
    threshold: int = 1  # contributing lanes of a subgroup from which they are summed
    names: Mapping[str, str | int] = field(default_factory=dict, compare=False)

    @classmethod
    def first(cls, device: Device, options: TiledOptions) -> TiledRows:
        """The rows of these options; of those that are 'auto', the first that runs. Raises
        UserError for what the device cannot run. The forward pass needs what a backward pass
        needs."""
        title, option = "backward pass of tiles", "tile_backward"
        by = resolve(device, title, TILE_BACKWARDS, options.tile_backward, option)
        backward, atomics = TILE_BACKWARDS[by], "cas"
        # a row that gathers adds no float, so it runs where no atomics do
        if not backward.gathers or options.atomics != "auto" or runnable(device, ATOMICS):
            atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "atomics")
        lanes = options.tile_threshold or THRESHOLD
        names: dict[str, str | int] = {"gradient": "stochastic"}
        if not options.stochastic:
            names = {"tile_backward": by, "atomics": atomics}
            if backward.threshold:
                names["tile_threshold"] = lanes
        return cls(backward, ATOMICS[atomics], threshold_of(device, lanes), names)
