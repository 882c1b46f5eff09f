"""SIFT features of photographs: OpenCV's with COLMAP's settings, in a third of the time of COLMAP's
on a CPU, and by many threads."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import read_pixels
from hardsplat.io.media.panorama import FACES, Face, face_side
from hardsplat.io.scenes.masks import read_mask
from hardsplat.sfm.job.plan import searched_scale

# COLMAP's peak_threshold of 0.02 / 3; OpenCV divides by the three layers of an octave itself
_CONTRAST = 0.02
_WIDER = 1.2  # side of a face in which features are found, over that of its part of the cube
_BELOW = 0.6  # tangent of the angle around straight down within which the photographer may be
_EDGE = 3  # px around what a mask or transparency leaves out, where features are those of the edge


def find_features(
    path: Path, mask: Path | None, panorama: bool, image_size: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N, 4) float32 x, y, scale in pixels of the file and orientation in radians, largest scale
    first, and (N, 128) uint8 RootSIFT descriptors, of at most `most` places; of a panorama, from
    the faces of its cube, at most twice as many.

    Nothing is found where the photograph is transparent or its mask black. Raises UserError where
    one of the two cannot be read.
    """
    grey, keep = _read(path, mask)
    height, width = grey.shape
    if panorama:
        side = max(1, min(face_side(width), image_size // 2))
        side = round(side * searched_scale(2 * side, image_size))
        across = min(width, round(np.pi * side))  # px that the faces need of the panorama
    else:
        across = max(1, round(width * searched_scale(max(grey.shape), image_size)))
    size = across, max(1, round(height * across / width))
    if size != (width, height):
        how = cv2.INTER_AREA if across < width else cv2.INTER_CUBIC
        grey = cv2.resize(grey, size, interpolation=how)
    if keep is not None:
        keep = cv2.resize(keep, size, interpolation=cv2.INTER_NEAREST)
        keep = cv2.erode(keep, np.ones((2 * _EDGE + 1, 2 * _EDGE + 1), np.uint8))
    points, descriptors = _of_faces(grey, keep, side) if panorama else _sift(grey, keep)
    points = points * [width / size[0], height / size[1], width / size[0], 1]
    # at the places of largest scale, each with all of its orientations, as in COLMAP
    order = np.argsort(-points[:, 2], kind="stable")
    points, descriptors = points[order].astype(np.float32), descriptors[order]
    new = np.append(True, (np.diff(points[:, :2], axis=0) != 0).any(axis=1))[: len(points)]
    kept = np.cumsum(new) <= (2 * most if panorama else most)
    return points[kept], descriptors[kept]


def _of_faces(
    grey: np.ndarray, keep: np.ndarray | None, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Features of a panorama: each face of its cube, `side` px wide, is cut wider and gives what
    lies in its own part."""
    height, width = grey.shape
    wide, found = 2 * round(side * _WIDER / 2), []
    for name in FACES:
        face = Face("", name, width, height, wide, wide / side)
        points, descriptors = _sift(
            face.undistort(grey), None if keep is None else face.undistort(keep)
        )
        away = np.abs(points[:, :2] - wide / 2)
        own = (away <= side / 2).all(axis=1)
        if name == "down":
            own &= np.hypot(*away.T) > side / 2 * _BELOW
        points[:, :2] = face.in_panorama(points[:, :2])
        points[:, 2] *= width / np.pi / side
        found.append((points[own], descriptors[own]))
    all_points, all_descriptors = zip(*found)
    return np.concatenate(all_points), np.concatenate(all_descriptors)


def _read(path: Path, mask: Path | None) -> tuple[np.ndarray, np.ndarray | None]:
    """(H, W) uint8 grey, and (H, W) uint8 that is 0 where no feature may be; None where all may."""
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
    return grey, None if keep.all() else keep


def _sift(grey: np.ndarray, keep: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    sift = cv2.SIFT.create(contrastThreshold=_CONTRAST, enable_precise_upscale=True)
    found, descriptors = sift.detectAndCompute(grey, keep)
    if not found:
        return np.zeros((0, 4)), np.zeros((0, 128), np.uint8)
    points = np.array([(*k.pt, k.size / 2, np.deg2rad(k.angle)) for k in found])
    points[:, :2] += 0.5  # OpenCV has pixel centres at integers, COLMAP at +0.5
    # RootSIFT (Arandjelovic and Zisserman, CVPR 2012), in bytes as COLMAP stores it
    share = descriptors / np.maximum(descriptors.sum(axis=1, keepdims=True), 1e-6)
    return points, np.minimum(np.rint(512 * np.sqrt(share)), 255).astype(np.uint8)
