"""How many splats buffers are made for, and how many a device holds."""

from __future__ import annotations

from hardsplat.config import TrainConfig
from hardsplat.footprint import most_splats
from hardsplat.gpu.context import Device
from hardsplat.raster import training_needs
from hardsplat.train.photos import Photos
from hardsplat.train.strategies import STRATEGIES

ROOM, MORE = 1.25, 150_000  # capacity: so many times the splats that it was made for, and so many more, since each growth takes a tenth of a second


def roomy(n: int) -> int:
    """Capacity made for n splats, where there is memory."""
    return int(n * ROOM) + MORE


def fitting(device: Device, config: TrainConfig, photos: Photos) -> int:
    """Most splats that this device holds in training, or --cap-max if that is fewer."""
    estimates = config.gradient_pairs if config.gradient == "stochastic" else 0
    each = training_needs(config.rasterizer, config.sh_degree, config.moments, estimates, STRATEGIES[config.strategy].follows)
    limit = most_splats(each, device.memory_bytes, device.max_buffer, device.max_allocation, 0 if photos.streamed else photos.buffer.nbytes)
    return min(limit, config.cap_max) if config.cap_max else limit


def limited_by(device: Device, config: TrainConfig) -> str:
    """What `fitting` comes to, in words."""
    return "--cap-max" if config.cap_max else f"the most that {device.name} holds"
