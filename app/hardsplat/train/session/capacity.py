"""How many splats buffers are made for, and how many a device holds."""

from __future__ import annotations

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.contract.footprint import most_splats
from hardsplat.gpu.device.context import Device
from hardsplat.raster.backends import training_needs
from hardsplat.settings.train import TrainConfig
from hardsplat.train.step.photos import Photos
from hardsplat.train.strategies import STRATEGIES

ROOM, MORE = (
    1.25,
    150_000,
    # capacity: so many times the splats that it was made for, and so many more, since each growth
    # takes a tenth of a second
)


def roomy(n: int) -> int:
    """Capacity made for n splats, where there is memory."""
    return int(n * ROOM) + MORE


def fitting(device: Device, config: TrainConfig, photos: Photos) -> int:
    """Most splats that this device holds in training, or --cap-max if that is fewer."""
    estimates = (
        config.gradient.stochastic.gradient_pairs if config.gradient.gradient == "stochastic" else 0
    )
    each = training_needs(
        config.raster.rasterizer,
        config.model.sh_degree,
        config.adam.moments,
        estimates,
        STRATEGIES[config.densify.strategy].follows,
    )
    limit = most_splats(
        each, device.memory_bytes, device.max_buffer, device.max_allocation, photos.device_bytes
    )
    return min(limit, config.densify.cap_max) if config.densify.cap_max else limit


def limited_by(device: Device, config: TrainConfig) -> str:
    """What `fitting` comes to, in words."""
    return "--cap-max" if config.densify.cap_max else f"the most that {device.name} holds"


class Room:
    """How many splats a session makes buffers for. stopped: why there will be no more, once that is
    so."""

    def __init__(self, device: Device, photos: Photos):
        self._device, self._photos = device, photos
        self.stopped = ""
        self._refused = 0  # capacity that did not fit

    def check(self, config: TrainConfig, n: int) -> None:
        """Raises OutOfMemory, or UserError for --cap-max, when this many splats are too many from
        the start."""
        if config.densify.cap_max and n > config.densify.cap_max:
            raise UserError(
                f"the run begins with {n} splats, more than --cap-max "
                f"{config.densify.cap_max}: raise it"
            )
        limit = fitting(self._device, config, self._photos)
        if n > limit:
            raise OutOfMemory(
                f"{n} splats do not fit: {limited_by(self._device, config)} is {limit} at "
                f"--sh-degree {config.model.sh_degree}",
                "splats",
            )

    def first(self, config: TrainConfig, n: int) -> int:
        """Capacity to begin with n splats."""
        return min(
            max(roomy(n), STRATEGIES[config.densify.strategy].reached(config)),
            fitting(self._device, config, self._photos),
        )

    def more(self, config: TrainConfig, wanted: int, before: int) -> int:
        """Capacity for `wanted` splats, or as many as fit; `before`, that of now, where there is to
        be no other."""
        limit = fitting(self._device, config, self._photos)
        capacity = min(roomy(wanted), limit)
        if capacity < wanted:
            self.stopped = (
                f"growth stops at {max(capacity, before)} splats: "
                f"{limited_by(self._device, config)} is {limit}"
            )
        return (
            before
            if capacity <= before or (self._refused and capacity >= self._refused)
            else capacity
        )

    def refuse(self, capacity: int, before: int, error: OutOfMemory) -> None:
        """There was no memory for that capacity. It is not asked for again: failing to allocate is
        slow."""
        self._refused = capacity
        self.stopped = f"growth stops at {before} splats: {error}"
