"""Resolutions that a training goes through: coarse photographs first, finer ones as their detail asks for it.

The steps at which the next level begins follow from the photographs' spectra: level i, which holds the energy E_i, begins at until ln(E_i / E_0) / ln(E / E_0), where
E_0 is the energy of the coarsest level and E that of all (Chen et al. 2025, "DashGaussian", equation 6, with energy for the sum of absolute Fourier coefficients).
The photographs of the next level are made by threads while the GPU trains on the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from hardsplat.camera import Camera
from hardsplat.io.masks import downsampled

STEPS_AN_OCTAVE = 2  # levels from one resolution to its double
COARSEST = 8.0  # the most that a level divides by
SHARE = 0.25  # of the energy, the least that a level holds
SMALLEST = 16  # px of the shorter side of a photograph, the least that a level leaves
PHOTOGRAPHS = 16  # as many tell the energy of all


def energies(images: Sequence[np.ndarray], divisors: Sequence[float]) -> list[float]:
    """The share of the energy that images divided by each of `divisors` hold, 0..1. images: (H, W, 3 or 4) uint8."""
    held = np.zeros(len(divisors))
    for image in images[:: -(-len(images) // PHOTOGRAPHS)]:
        spectrum = np.abs(np.fft.fft2(image[..., :3].mean(axis=2, dtype=np.float32)))
        y, x = (np.abs(np.fft.fftfreq(n)) for n in spectrum.shape)
        highest = np.maximum(y[:, None], x[None])  # cycles a pixel
        held += [spectrum[highest <= 0.5 / d].sum() / max(spectrum.sum(), 1e-30) for d in divisors]
    return list(held / len(images[:: -(-len(images) // PHOTOGRAPHS)]))


def levels(images: Sequence[np.ndarray], until: int) -> list[tuple[int, float]]:
    """(first step, divisor of width and height) of each level, coarsest first; the last one is (at most until, 1)."""
    if not until:
        return [(0, 1.0)]
    most = max(min(COARSEST, min(min(i.shape[:2]) for i in images) / SMALLEST), 1.0)
    divisors = [2 ** (k / STEPS_AN_OCTAVE) for k in range(int(STEPS_AN_OCTAVE * np.log2(most)), -1, -1)]
    held = energies(images, divisors)
    kept = [(d, e) for d, e in zip(divisors, held) if e >= SHARE or d == 1.0]
    first, whole = kept[0][1], max(kept[-1][1], kept[0][1])
    if whole <= first:
        return [(0, 1.0)]
    found = {round(until * float(np.log(e / first) / np.log(whole / first))): d for d, e in kept}  # of two levels that begin together the finer one
    return sorted(found.items())


class Resolutions:
    """Cameras and photographs of the size that a step has. cameras, images: of full size."""

    def __init__(self, cameras: Sequence[Camera], images: Sequence[np.ndarray], until: int):
        self._cameras, self._images = cameras, images
        self.levels = levels(images, until)
        self._shown = len(self.levels) - 1 if len(self.levels) == 1 else -1  # the level that is on the GPU; full size is there from the start
        self._threads = ThreadPoolExecutor(8)
        self._next: tuple[int, list[Future]] = (-1, [])

    @property
    def divisor(self) -> float:
        """What width and height are divided by now."""
        return self.levels[self._shown][1] if self._shown >= 0 else 1.0

    def next_change(self, step: int, otherwise: int) -> int:
        """The first step above `step` at which the resolution changes."""
        return min((first for first, _ in self.levels if first > step), default=otherwise)

    def at(self, step: int) -> tuple[list[Camera], list[np.ndarray]] | None:
        """Cameras and photographs to go on with; None where those that were given last still are the right ones."""
        level = max(i for i, (first, _) in enumerate(self.levels) if first <= step)
        if level == self._shown:
            return None
        images = [f.result() for f in (self._next[1] if self._next[0] == level else self._made(level))]
        self._shown = level
        if level + 1 < len(self.levels):
            self._next = level + 1, self._made(level + 1)
        else:
            self._threads.shutdown(wait=False)
        return [c.resized(*self._size(c, level)) for c in self._cameras], images

    def _size(self, camera: Camera, level: int) -> tuple[int, int]:
        divisor = self.levels[level][1]
        return max(1, round(camera.width / divisor)), max(1, round(camera.height / divisor))

    def _made(self, level: int) -> list[Future]:
        return [self._threads.submit(self._resized, image, self._size(camera, level)) for image, camera in zip(self._images, self._cameras)]

    @staticmethod
    def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        return image if image.shape[1::-1] == size else downsampled(image, *size)
