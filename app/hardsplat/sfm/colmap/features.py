"""SIFT features of photographs: OpenCV's with COLMAP's settings, in a third of the time of COLMAP's
on a CPU, and by many threads."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import read_pixels
from hardsplat.io.scenes.masks import read_mask

# COLMAP's peak_threshold of 0.02 / 3; OpenCV divides by the three layers of an octave itself
_CONTRAST = 0.02
_SMALL = 480  # px of the longer side, below which photographs are enlarged: they have few features
_BELOW = 5 / 6  # share of a panorama's height, below which the photographer may be
_EDGE = 3  # px around what a mask or transparency leaves out, where features are those of the edge


def find_features(
    path: Path, mask: Path | None, panorama: bool, image_size: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N, 4) float32 x, y, scale in pixels of the file and orientation in radians, largest scale
    first, and (N, 128) uint8 RootSIFT descriptors, of at most `most` places; of a panorama, which
    is searched at twice the size, of twice as many.

    Nothing is found where the photograph is transparent or its mask black. Raises UserError where
    one of the two cannot be read.
    """
    grey, keep = _read(path, mask)
    height, width = grey.shape
    if panorama:
        keep[round(_BELOW * height) :] = 0
        image_size, most = 2 * image_size, 2 * most
    longest = max(grey.shape)
    scale = min(2.0 if longest < _SMALL else 1.0, image_size / longest)
    if scale != 1:
        size = max(1, round(width * scale)), max(1, round(height * scale))
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        grey = cv2.resize(grey, size, interpolation=how)
        keep = cv2.resize(keep, size, interpolation=cv2.INTER_NEAREST)
    keep = cv2.erode(keep, np.ones((2 * _EDGE + 1, 2 * _EDGE + 1), np.uint8))
    sift = cv2.SIFT.create(contrastThreshold=_CONTRAST, enable_precise_upscale=True)
    found, descriptors = sift.detectAndCompute(grey, keep)
    if not found:
        return np.zeros((0, 4), np.float32), np.zeros((0, 128), np.uint8)
    # OpenCV has pixel centres at integers, COLMAP at +0.5
    rows = [(k.pt[0] + 0.5, k.pt[1] + 0.5, k.size / 2, np.deg2rad(k.angle)) for k in found]
    stretch = np.array([width, height, width]) / [*grey.shape[::-1], grey.shape[1]]
    points = np.array(rows) * [*stretch, 1]
    # at the places of largest scale, each with all of its orientations, as in COLMAP
    order = np.argsort(-points[:, 2], kind="stable")
    points = points[order].astype(np.float32)
    new = np.append(True, (np.diff(points[:, :2], axis=0) != 0).any(axis=1))
    kept = np.cumsum(new) <= most
    # RootSIFT (Arandjelovic and Zisserman, CVPR 2012), in bytes as COLMAP stores it
    share = descriptors / np.maximum(descriptors.sum(axis=1, keepdims=True), 1e-6)
    spots = np.minimum(np.rint(512 * np.sqrt(share)), 255).astype(np.uint8)[order]
    return points[kept], spots[kept]


def _read(path: Path, mask: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """(H, W) uint8 grey, and (H, W) uint8 that is 0 where no feature may be."""
    image = read_pixels(path)
    grey = cv2.cvtColor(np.ascontiguousarray(image[..., :3]), cv2.COLOR_RGB2GRAY)
    keep: np.ndarray = np.full(image.shape[:2], 255, np.uint8)
    if image.shape[2] != 3:
        keep[image[..., 3] <= 127] = 0
    if mask:
        outside = read_mask(mask)
        if outside.shape != keep.shape:
            sizes = [f"{a.shape[1]}x{a.shape[0]}" for a in (outside, keep)]
            raise UserError(f"{mask}: is {sizes[0]}, but its photograph is {sizes[1]}")
        keep &= outside
    return grey, keep
