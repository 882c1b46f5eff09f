"""How many splats buffers are made for, and how many a device holds."""

from __future__ import annotations

from app.config import TrainConfig
from app.footprint import bytes_per_splat
from app.gpu.context import Device
from app.raster import BACKENDS
from app.train.photos import Photos
from app.variants.moments import MOMENT_FORMATS

ROOM, MORE = 1.25, 150_000  # capacity: so many times the splats that it was made for, and so many more, since each growth takes a tenth of a second


def roomy(n: int) -> int:
    """Capacity made for n splats, where there is memory."""
    return int(n * ROOM) + MORE


def fitting(device: Device, config: TrainConfig, photos: Photos) -> int:
    """Most splats that this device holds in training, or --cap-max if that is fewer."""
    estimates = config.gradient_pairs if config.gradient == "stochastic" else 0
    each = bytes_per_splat(config.sh_degree, MOMENT_FORMATS[config.moments].nbytes, estimates)
    each["tiles"] = BACKENDS[config.rasterizer].bytes_per_splat
    used = 0 if photos.streamed else photos.buffer.nbytes
    by_memory = int(0.9 * device.memory_bytes - used) // sum(each.values())
    limit = int(min(device.max_buffer // max(each.values()), by_memory)) // 4 * 4  # planes take a multiple of 4, see contract.plane_stride
    return min(limit, config.cap_max) if config.cap_max else limit


def limited_by(device: Device, config: TrainConfig) -> str:
    """What `fitting` comes to, in words."""
    return "--cap-max" if config.cap_max else f"the most that {device.name} holds"
