"""Masks: pictures that say which pixels of a photograph count, white, and which are ignored, black."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from hardsplat import contract
from hardsplat.io.images import read_rgb8

FOLDER = "masks"
_IGNORED = np.array([contract.CONSTANTS["IGNORED"]], "<u4").view(np.uint8)


def mask_beside(root: Path, name: str) -> Path | None:
    """SCENE/masks/a.png, or a.jpg.png as COLMAP calls it, of the photograph SCENE/images/a.jpg; None where there is none."""
    path = root / FOLDER / name
    return next((p for p in (path.with_suffix(".png"), path.with_name(path.name + ".png")) if p.is_file()), None)


def read_mask(path: Path) -> np.ndarray:
    """(H, W) uint8, 255 where a pixel counts, else 0. Raises UserError like read_rgb8."""
    return np.where(read_rgb8(path).max(axis=2) > 127, np.uint8(255), np.uint8(0))


def masked(image: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """(H, W, 4) uint8 from an image of read_pixels: the word IGNORED where keep (H, W), resampled from a mask, is not all white."""
    rgba = np.full((*image.shape[:2], 4), 255, np.uint8)
    rgba[..., : image.shape[2]] = image
    rgba[keep < 255] = _IGNORED
    return rgba


def downsampled(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """An image of View.load() at another size, by area. A pixel that mixes in an ignored one is ignored."""
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    if image.shape[2] == 3:
        return small
    keep = np.where((image != _IGNORED).any(axis=2), np.uint8(255), np.uint8(0))
    return masked(small, cv2.resize(keep, (width, height), interpolation=cv2.INTER_AREA))


def kept_pixels(image: np.ndarray) -> int:
    """How many pixels of an image of View.load() count."""
    return int((image != _IGNORED).any(axis=2).sum()) if image.shape[2] == 4 else image.shape[0] * image.shape[1]
