"""What the tiled rasterizer can be told, and the registry rows that this comes to on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hardsplat.gpu.device.context import Device
from hardsplat.raster.core.resolve import name_of, resolve, runnable
from hardsplat.settings.raster import Options, Stochastic
from hardsplat.tables.reductions import ATOMICS, Atomics
from hardsplat.tables.tiles import TILE_BACKWARDS, TileBackward


@dataclass(frozen=True)
class TiledOptions(Options):
    """Rows of the registries in app/hardsplat/variants; 'auto' takes the first row that the device
    can run."""

    tile_backward: str = "auto"
    tile_threshold: int = 8  # distwar: contributing lanes of 32 that make a reduction worth it
    atomics: str = "auto"
    antialiased: bool = False  # opacities times the compensation of the dilation
    lens: str = "pinhole"  # or "distorted", which takes cameras of both kinds
    stochastic: Stochastic | None = (
        None  # gradients from perturbed images, without a backward pass of tiles
    )
    gradient: str = "auto"  # auto: analytic; stochastic: see above


@dataclass(frozen=True)
class TiledRows:
    """The registry rows that the rasterizer is made of, and their names there."""

    tile_backward: TileBackward
    atomics: Atomics
    names: Mapping[str, str | int] = field(default_factory=dict, compare=False)

    @classmethod
    def resolve(cls, device: Device, options: TiledOptions) -> TiledRows:
        backward = resolve(
            device,
            "backward pass of tiles",
            TILE_BACKWARDS,
            options.tile_backward,
            "--tile-backward",
        )  # the forward pass has the same needs
        atomics = ATOMICS["cas"]
        # a row that gathers adds no float, so it runs where no atomics do
        if not backward.gathers or options.atomics != "auto" or runnable(device, ATOMICS):
            atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "--atomics")
        if options.stochastic:
            return cls(backward, atomics, {"gradient": "stochastic"})
        names = {
            "tile_backward": name_of(TILE_BACKWARDS, backward),
            "atomics": name_of(ATOMICS, atomics),
        }
        return cls(backward, atomics, names)
