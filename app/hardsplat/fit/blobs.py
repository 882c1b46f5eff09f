"""2D Gaussians of an image fit: as arrays, as files, on the GPU, and how they become more.

New ones come to pixels drawn by squared error, in front of the others: on the host, since it
happens a few times in a run. The image and 27 numbers a blob cross the bus.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.base.files import written
from hardsplat.fit.config import FitConfig
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import allocate_all, destroy_all

NUMBERS = contract.CONSTANTS["BLOB"]
OPACITY, SHARE = 0.7, 0.6  # of a new blob: opacity, deviation over the distance to the next
START = 4  # a run begins with a fourth of its blobs
FADED = 1 / 255  # opacity at which a blob is drawn nowhere and has no gradient any more


@dataclass
class Blobs:
    """The nine parameters as they are trained, float32, a blob each, the frontmost first.

    means: (N, 2) px from the top left corner; the first pixel's centre is at (0.5, 0.5).
    log_scales: (N, 2) log of the standard deviations along both axes, px. Drawing adds 0.3 px^2 to
    the covariance. angles: (N,) rad, of the first axis. colors: (N, 3) sRGB, not bounded.
    logit_opacities: (N,).
    """

    means: np.ndarray
    log_scales: np.ndarray
    angles: np.ndarray
    colors: np.ndarray
    logit_opacities: np.ndarray

    def __len__(self) -> int:
        return len(self.means)

    @property
    def planes(self) -> np.ndarray:
        """(9, N) float32, as the contract's `blobs`."""
        return np.concatenate(
            [np.atleast_2d(np.asarray(getattr(self, f.name), np.float32).T) for f in fields(self)]
        )

    @classmethod
    def of(cls, planes: np.ndarray) -> Blobs:
        return cls(planes[:2].T, planes[2:4].T, planes[4], planes[5:8].T, planes[8])

    @property
    def opacities(self) -> np.ndarray:
        return 1 / (1 + np.exp(-self.logit_opacities.astype(np.float64)))

    @classmethod
    def at(
        cls, pixels: np.ndarray, photo: np.ndarray, spacing: float, rng: np.random.Generator
    ) -> Blobs:
        """New blobs, round and of the photograph's colour, at random in the given pixels (N, 2;
        column, row) of (H, W, 3) in 0..1. spacing: px."""
        n = len(pixels)
        means = pixels + rng.random((n, 2))
        scales, logits = np.log(SHARE * spacing), np.full(n, np.log(OPACITY / (1 - OPACITY)))
        colors = photo[pixels[:, 1], pixels[:, 0]]
        return cls(means, np.full((n, 2), scales), np.zeros(n), colors, logits)

    @classmethod
    def scattered(cls, n: int, photo: np.ndarray, seed: int) -> Blobs:
        """Uniformly over the image."""
        rng, (height, width) = np.random.default_rng(seed), photo.shape[:2]
        pixels = np.stack([rng.integers(0, width, n), rng.integers(0, height, n)], 1)
        return cls.at(pixels, photo, float(np.sqrt(width * height / n)), rng)

    def save(self, path: Path, width: int, height: int, background: np.ndarray) -> None:
        """NPZ in natural units: means, scales, angles, colors, opacities; with the image's size and
        background."""
        values: dict = dict(means=self.means, scales=np.exp(self.log_scales), angles=self.angles)
        values |= dict(colors=self.colors, opacities=self.opacities.astype(np.float32))
        around = dict(size=np.array([width, height]), background=np.float32(background))
        with written(path):
            np.savez(path, **values | around)


class BlobBuffers:
    """Up to `capacity` blobs on the GPU with their counts. extra: buffers besides `blobs`."""

    sh_degree = 0  # a blob has one colour

    def __init__(self, device: Device, capacity: int, extra: tuple[str, ...] = ()):
        self.capacity = capacity
        planes = {"blobs": NUMBERS, "d_blobs": NUMBERS, "adam_blobs": 2 * NUMBERS}
        sizes = {name: 4 * planes[name] * capacity for name in ("blobs", *extra)}
        sizes |= {name: contract.itemsize(name) for name in ("counts", "indirect")}
        self.resources = allocate_all(device, sizes)

    @property
    def counts(self) -> np.void:
        """The Counts struct as it is now; waits for the copy."""
        return self.resources["counts"].download(contract.dtype("Counts"))[0]

    def read(self, name: str) -> np.ndarray:
        """(planes, N) float32."""
        planes = self.resources[name].download(np.float32).reshape(-1, self.capacity)
        return planes[:, : int(self.counts["splats"])].copy()

    def write(self, name: str, planes: np.ndarray) -> None:
        full = np.zeros((len(planes), self.capacity), np.float32)
        full[:, : planes.shape[1]] = planes
        self.resources[name].upload(full)

    def set(self, blobs: Blobs, moments: np.ndarray | None = None) -> None:
        """Replaces all blobs, and Adam's moments (18, N), which are zero by default. What depends
        on their number has to be recorded or run again."""
        n = len(blobs)
        counts = contract.struct("Counts", splats=n, visible=n, capacity=self.capacity)
        self.resources["counts"].upload(counts)
        self.write("blobs", blobs.planes)
        if "adam_blobs" in self.resources:
            self.write("adam_blobs", np.zeros((2 * NUMBERS, 0)) if moments is None else moments)

    def destroy(self) -> None:
        destroy_all(self.resources)


def growth_of(config: FitConfig, capacity: int) -> tuple[int, dict[int, int]]:
    """Blobs to start with, and step -> blobs that there will be from it on: equal shares, in the
    first half of the run."""
    if not config.densify:
        return capacity, {}
    first, every = max(1, capacity // START), config.densify_every
    steps = range(every, config.max_steps // 2 + 1, every) or range(1, 2)
    added = (round((capacity - first) * i / len(steps)) for i in range(1, len(steps) + 1))
    return first, {step: first + n for step, n in zip(steps, added)}


def grown(
    blobs: Blobs,
    moments: np.ndarray,
    image: np.ndarray,
    photo: np.ndarray,
    total: int,
    rng: np.random.Generator,
) -> tuple[Blobs, np.ndarray]:
    """`total` blobs and their moments (18, total): new ones in front of those that have not faded.

    image, photo: (H, W, 3) in 0..1, what is drawn and what should be. Where they are equal, new
    blobs are uniform over the image.
    """
    keep = np.flatnonzero((blobs.opacities > FADED) & np.isfinite(blobs.planes).all(0))[:total]
    new = total - len(keep)
    height, width = photo.shape[:2]
    error = np.sum((np.clip(image, 0, 1).astype(np.float64) - photo) ** 2, axis=2).reshape(-1)
    weight = error / error.sum() if np.isfinite(error.sum()) and error.sum() > 0 else None
    places = rng.choice(width * height, new, p=weight)
    pixels = np.stack([places % width, places // width], 1)
    # half the mean distance of blobs: they are smaller where the error is
    added = Blobs.at(pixels, photo, 0.5 * float(np.sqrt(width * height / total)), rng)
    planes = np.concatenate([added.planes, blobs.planes[:, keep]], 1)
    zeros = np.zeros((2 * NUMBERS, new), np.float32)
    return Blobs.of(planes), np.concatenate([zeros, moments[:, keep]], 1)
