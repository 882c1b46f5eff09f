"""Measuring past exposure: a render with the exposure and colour of its photograph. What is left is
what no exposure and no white balance explains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

UNEVEN = 1.5  # dB that fitted colours gain where photographs differ in exposure
LEARNT = 20.0  # dB of a scene that has been trained so far that this means something
MOMENTS = (10, 3)  # numbers of `color_moments` that a workgroup sums
_STEP = 4  # pixels from one to the next, each way, that `gain` looks at in a picture of
_LARGE = 1 << 12  # pixels or more


def color_map(image: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(4, 3): the affine map of colours that brings (N, 3) nearest to (N, 3), by least squares."""
    ones = np.concatenate([image, np.ones_like(image[:, :1])], axis=1).astype(np.float64)
    return np.linalg.lstsq(ones.T @ ones, ones.T @ photo.astype(np.float64), rcond=1e-10)[0]


def both_halves(moments: np.ndarray) -> np.ndarray:
    """(2, 10, 3) float64 of the left and the right half, from `color_moments`, (groups, 10, 3)."""
    return moments.reshape(-1, 2, *MOMENTS).sum(0, dtype=np.float64)


def color_map_of(moments: np.ndarray) -> np.ndarray:
    """color_map of the pixels that moments (10, 3) are of."""
    s, pixels = moments[6], moments[9, 0]
    left = np.block([[moments[:3], s[:, None]], [s, pixels]])
    return np.linalg.lstsq(left, moments[[3, 4, 5, 7]], rcond=1e-10)[0]


def half_psnr(halves: np.ndarray) -> float:
    """PSNR in dB of the right half of a render against its photograph, after gains of red, green
    and blue that fit the left half best.

    halves: of both_halves. Where a half has no pixel, the whole image is both.
    """
    fit, test = halves if halves[:, 9, 0].all() else np.broadcast_to(halves.sum(0), halves.shape)
    products, squares = (slice(3, 6), slice(0, 3))
    gains = np.diag(fit[products]) / np.maximum(np.diag(fit[squares]), 1e-6)
    errors = test[8] - 2 * gains * np.diag(test[products]) + gains**2 * np.diag(test[squares])
    return -10 * math.log10(max(errors.sum() / (3 * test[9, 0]), 1e-10))


def gain(image: np.ndarray, photo: np.ndarray) -> tuple[float, float]:
    """PSNR in dB before and after a fit of colours, of every 16th pixel of a large picture: fast,
    for a look at whether photographs differ in exposure."""
    step = _STEP if image.shape[0] * image.shape[1] >= _LARGE else 1
    shown, wanted = (x[::step, ::step].reshape(-1, 3) for x in (image, photo))
    shown, wanted = np.clip(shown, 0, 1), wanted / 255
    found = color_map(shown, wanted)
    fitted = np.clip(shown @ found[:3] + found[3], 0, 1)
    errors = (float(np.mean((x - wanted) ** 2)) for x in (shown, fitted))
    before, after = (-10 * math.log10(max(error, 1e-10)) for error in errors)
    return before, after


def uneven(gains: Sequence[float]) -> str:
    """The note on photographs that differ in exposure, "" where they do not seem to."""
    mean = float(np.mean(gains)) if gains else 0.0
    what = "so photographs seem to differ in exposure: try --exposure ppisp"
    return f"note: fitted colours gain {mean:.1f} dB, {what}" if mean > UNEVEN else ""
