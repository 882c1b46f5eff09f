"""Measuring past exposure: a render with the exposure and colour of its photograph. What is left is
what no exposure and no white balance explains."""

from __future__ import annotations

import math

import numpy as np

UNEVEN = 1.5  # dB that fitted colours gain where photographs differ in exposure
LEARNT = 20.0  # dB of a scene that has been trained so far that this means something
_STEP = 4  # pixels from one to the next, each way, that `gain` looks at


def color_map(image: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(4, 3): the affine map of colours that brings (N, 3) nearest to (N, 3), by least squares."""
    ones = np.concatenate([image, np.ones_like(image[:, :1])], axis=1).astype(np.float64)
    return np.linalg.lstsq(ones.T @ ones, ones.T @ photo.astype(np.float64), rcond=1e-10)[0]


def color_fitted(image: np.ndarray, photo: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """A render (H, W, 3) float32 mapped to the colours of its photograph (H, W, 3) uint8, in 0..1.
    keep: (H, W) bool, the pixels that count.

    The fit of gsplat's cc_ metrics, with an offset: `color_map` over the whole image, of the render
    clamped to 0..1.
    """
    shown = np.clip(image, 0, 1)
    found = color_map(shown[keep], photo[keep] / 255).astype(np.float32)
    return np.clip(shown @ found[:3] + found[3], 0, 1)


def half_psnr(image: np.ndarray, photo: np.ndarray, keep: np.ndarray) -> float:
    """PSNR in dB of the right half of a render (H, W, 3) against its photograph (H, W, 3) uint8.
    Gains of red, green and blue that fit the left half best come first; every 16th pixel counts.
    keep: (H, W) bool, the pixels that count at all."""
    shown, wanted, keep = (x[::_STEP, ::_STEP] for x in (image, photo, keep))
    shown, wanted = np.clip(shown, 0, 1), wanted / 255
    left = np.arange(keep.shape[1]) < keep.shape[1] // 2
    fit, test = keep & left, keep & ~left
    if not fit.any() or not test.any():
        fit = test = keep
    gains = (shown[fit] * wanted[fit]).sum(0) / np.maximum((shown[fit] ** 2).sum(0), 1e-6)
    error = np.mean((np.clip(shown[test] * gains, 0, 1) - wanted[test]) ** 2)
    return -10 * math.log10(max(float(error), 1e-10))


def gain(image: np.ndarray, photo: np.ndarray) -> tuple[float, float]:
    """PSNR in dB before and after a fit of colours, of every 16th pixel: fast, for a look at
    whether photographs differ in exposure."""
    shown, wanted = (x[::_STEP, ::_STEP].reshape(-1, 3) for x in (image, photo))
    shown, wanted = np.clip(shown, 0, 1), wanted / 255
    found = color_map(shown, wanted)
    fitted = np.clip(shown @ found[:3] + found[3], 0, 1)
    errors = (float(np.mean((x - wanted) ** 2)) for x in (shown, fitted))
    before, after = (-10 * math.log10(max(error, 1e-10)) for error in errors)
    return before, after
