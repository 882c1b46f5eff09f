"""Silhouettes of photographs, and what is measured against them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.mesh.session import Scale
from hardsplat.model.camera import Camera

_IGNORED = np.array([contract.CONSTANTS["IGNORED"]], "<u4").view(np.uint8)


def silhouetted(image: np.ndarray, name: str) -> np.ndarray:
    """(H, W, 4) uint8, premultiplied, of an image of View.load(): what a mask leaves out, or is
    transparent, is not the object. UserError without either."""
    if image.shape[2] == 3:
        raise UserError(
            f"{name}: has no silhouette; add a mask "
            f"(masks/{Path(name).stem}.png, white on the object) or use transparent PNGs"
        )
    out = image.copy()
    out[(image == _IGNORED).all(axis=2)] = 0
    return out


def scale_of(cameras: list[Camera], vertices: np.ndarray) -> Scale:
    """The scale of a mesh in front of its cameras. Raises UserError where no camera sees it."""
    low, high = vertices.min(axis=0).astype(np.float64), vertices.max(axis=0).astype(np.float64)
    centre, radius = (low + high) / 2, float(np.linalg.norm(high - low) / 2)
    depths = np.array([(c.w2c[:3] @ np.append(centre, 1))[2] for c in cameras])
    if not (depths > 0).any():
        raise UserError(
            "the first mesh lies behind every camera; it must have the scene's position and size"
        )
    focal = np.array([math.sqrt(c.K[0, 0] * c.K[1, 1]) for c in cameras])
    ahead = depths > 0
    near = 0.01 * float(np.median(depths[ahead]))
    return Scale(float(np.median(depths[ahead] / focal[ahead])), radius, near)


def measured(picture: np.ndarray, photo: np.ndarray) -> dict[str, float]:
    """IoU of the silhouettes, PSNR over the whole picture on black, and over the photograph's
    object alone. picture: (H, W, 4) float; photo: uint8."""
    wanted = photo.astype(np.float64) / 255
    inside, covered = wanted[..., 3] > 0.5, picture[..., 3] > 0.5
    error = ((np.clip(picture[..., :3], 0, 1) - wanted[..., :3]) ** 2).mean(axis=2)
    either = (inside | covered).sum()
    return {
        "iou": float((inside & covered).sum() / max(either, 1)),
        "psnr": decibels(error.mean()),
        "psnr_object": decibels(error[inside].mean() if inside.any() else 0.0),
    }


def decibels(mse: float) -> float:
    return -10 * math.log10(max(float(mse), 1e-10))


def mean_colour(images: list[np.ndarray]) -> np.ndarray:
    """(3,) in 0..1 of what the silhouettes hold."""
    sums = np.sum([image.reshape(-1, 4).sum(axis=0, dtype=np.float64) for image in images], axis=0)
    return sums[:3] / max(sums[3], 1.0)
