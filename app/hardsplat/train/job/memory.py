"""How many splats fit a device in training."""

from __future__ import annotations

from hardsplat.contract.footprint import SHOWN, most_splats, packed
from hardsplat.gpu.device.context import Device
from hardsplat.raster.backends import training_needs
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.facts import DeviceFacts
from hardsplat.train.job.job import estimates_of
from hardsplat.train.strategies import STRATEGIES


def fitting(
    device: Device | DeviceFacts,
    config: TrainConfig,
    rasterizer: str,
    taken: int = 0,
    shown: float = SHOWN,
) -> int:
    """Most splats that the device holds in a training, by its memory and its limits alone.

    config: as decided. taken: bytes of other things there. shown: packed, the share that a view
    shows at most.
    """
    degree, follows = config.model.sh_degree, STRATEGIES[config.densify.strategy].follows
    each = training_needs(rasterizer, degree, config.adam.moments, estimates_of(config), follows)
    if config.run.packed:
        each = packed(each, shown, config.run.out_of_core == "on")
    return most_splats(each, device.memory_bytes, device.max_buffer, device.max_allocation, taken)
