"""Per-splat buffers of a scene on the GPU: parameters, and whatever follows them (gradients, optimizer moments, statistics)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardsplat import contract
from hardsplat.gaussians import Gaussians
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, copy_regions
from hardsplat.variants.moments import MOMENT_FORMATS

FIELDS, MOMENTS = contract.PARAMETERS, contract.MOMENTS


def planes_of(name: str, sh_planes: int) -> int:
    """Planes of a row: one for each SH coefficient in those ending in `sh`, and of moments two for each."""
    return (sh_planes if name.endswith("sh") else 1) * (2 if name in MOMENTS else 1)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 -> the bits of the nearest bfloat16, ties to even, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> 16 & 1))
    return (np.where(np.isnan(values), bits | 1 << 22, rounded) >> 16).astype(np.uint16)  # a NaN stays one


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 that these uint16 are, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


class SplatBuffers:
    """Buffers by contract name for up to `capacity` splats; rows ending in `sh` have `sh_planes` planes, Adam rows two for each of them.

    moments: how Adam rows are stored, a row of app/hardsplat/variants/moments.py; the host reads and writes them as float32 all the same.
    """

    def __init__(self, device: Device, names: Iterable[str], capacity: int, sh_planes: int, moments: str = "float32"):
        self.device, self.names, self.capacity, self.sh_planes = device, tuple(names), capacity, sh_planes
        self.moment_bytes = MOMENT_FORMATS[moments].nbytes
        self.resources = {}
        try:
            for name in self.names:
                self.resources[name] = self._allocate(name, capacity)
        except Exception:
            self.destroy()
            raise

    @property
    def stride(self) -> int:
        return contract.plane_stride(self.capacity)

    def planes(self, name: str) -> int:
        return planes_of(name, self.sh_planes)

    def itemsize(self, name: str) -> int:
        return contract.itemsize(name, self.moment_bytes)

    def _allocate(self, name: str, capacity: int) -> Buffer:
        return Buffer(self.device, self.planes(name) * contract.plane_stride(capacity) * self.itemsize(name), name)

    def read(self, name: str, n: int) -> np.ndarray:
        """(planes, n, values) float32 of the first n splats."""
        width, values = self.itemsize(name), contract.itemsize(name) // 4
        kind = np.float32 if width == 4 * values else np.uint16
        planes = np.stack([self.resources[name].download(kind, n * values, k * self.stride * width) for k in range(self.planes(name))])
        return (planes if kind == np.float32 else from_bfloat16(planes)).reshape(self.planes(name), n, values)

    def write(self, name: str, values: np.ndarray) -> None:
        """From (planes, n, values) float32, which bfloat16 rounds to nearest."""
        width, whole = self.itemsize(name), contract.itemsize(name)
        for k, plane in enumerate(np.asarray(values, np.float32)):
            self.resources[name].upload(plane if width == whole else to_bfloat16(plane), offset=k * self.stride * width)

    def grow(self, capacity: int, n: int) -> None:
        """More capacity for the same n splats. Old and new buffers stand side by side until all are copied; raises OutOfMemory with nothing changed."""
        grown = {}
        try:
            for name in self.names:
                grown[name] = self._allocate(name, capacity)
        except Exception:
            for buffer in grown.values():
                buffer.destroy()
            raise
        for name, buffer in grown.items():
            width = self.itemsize(name)
            regions = [(k * self.stride * width, k * contract.plane_stride(capacity) * width, n * width) for k in range(self.planes(name))]
            copy_regions(self.resources[name], buffer, regions)
            self.resources[name].destroy()
            self.resources[name] = buffer
        self.capacity = capacity

    def destroy(self) -> None:
        for buffer in self.resources.values():
            buffer.destroy()
        self.resources.clear()


class Parameters(SplatBuffers):
    """The trained parameters with their counts; `extra` names rows that live and grow with them."""

    def __init__(self, device: Device, capacity: int, sh_planes: int, extra: Iterable[str] = (), moments: str = "float32"):
        self._shared: dict[str, Buffer] = {}  # destroy() looks at it when a buffer of the others does not fit
        super().__init__(device, (*FIELDS, *extra), capacity, sh_planes, moments)
        self._shared = {name: Buffer(device, contract.itemsize(name), name) for name in ("counts", "indirect")}
        self.set_count(0)

    @property
    def all(self) -> dict[str, Buffer]:
        return {**self.resources, **self._shared}

    def set_count(self, n: int) -> None:
        counts = np.zeros(1, contract.dtype("Counts"))
        counts["splats"], counts["capacity"], counts["stride"] = n, self.capacity, self.stride
        self._shared["counts"].upload(counts)

    @property
    def counts(self) -> np.void:
        """The Counts row as it is now; waits for the copy."""
        return self._shared["counts"].download(contract.dtype("Counts"))[0]

    def upload(self, gaussians: Gaussians) -> None:
        """Replaces all splats. SH bands that `gaussians` lacks become zeros."""
        n, k = len(gaussians), gaussians.sh.shape[1]
        if n > self.capacity or k > self.sh_planes:
            raise ValueError(f"{n} splats of SH degree {gaussians.sh_degree} do not fit: capacity {self.capacity}, {self.sh_planes} SH planes")
        sh = np.zeros((self.sh_planes, n, 3), np.float32)
        sh[:k] = gaussians.sh.transpose(1, 0, 2)
        for name in FIELDS[:-1]:
            self.write(name, getattr(gaussians, name)[None])
        self.write("sh", sh)
        self.set_count(n)

    def download(self) -> Gaussians:
        n = int(self.counts["splats"])
        means, quats, log_scales, logits, sh = (self.read(name, n) for name in FIELDS)
        return Gaussians.from_parameters(means[0], quats[0], log_scales[0], logits[0, :, 0], sh.transpose(1, 0, 2))

    def destroy(self) -> None:
        super().destroy()
        for buffer in self._shared.values():
            buffer.destroy()
        self._shared.clear()
