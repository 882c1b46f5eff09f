"""Silhouettes of photographs: where the object is, how large it is, and how well a mesh has it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.fitmesh.session import Scale
from hardsplat.model.camera import Camera

_IGNORED = np.array([contract.CONSTANTS["IGNORED"]], "<u4").view(np.uint8)


def silhouetted(image: np.ndarray, name: str) -> np.ndarray:
    """(H, W, 4) uint8, premultiplied, of an image of View.load(): what a mask leaves out, or is
    transparent, is not the object. UserError without either."""
    if image.shape[2] == 3:
        mask = f"masks/{Path(name).stem}.png, white on the object"
        raise UserError(f"{name}: has no silhouette; add a mask ({mask}) or use transparent PNGs")
    out = image.copy()
    out[(image == _IGNORED).all(axis=2)] = 0
    return out


def scale_of(cameras: list[Camera], vertices: np.ndarray) -> Scale:
    """The scale of a mesh in front of its cameras."""
    low, high = vertices.min(axis=0).astype(np.float64), vertices.max(axis=0).astype(np.float64)
    depths = _depths(cameras, (low + high) / 2)
    pixel = float(np.median(depths / _focal(cameras)))
    near = 0.01 * float(np.median(depths))
    return Scale(pixel, float(np.linalg.norm(high - low) / 2), near)


def bounding_sphere(cameras: list[Camera], coverages: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """Centre (3,) and radius, world units, of the sphere whose outlines have about the silhouettes'
    places and areas. coverages: (H, W) bool. Raises UserError where they do not tell."""
    seen = [(camera, np.nonzero(c)) for camera, c in zip(cameras, coverages) if c.any()]
    normal, right = np.zeros((3, 3)), np.zeros(3)
    for camera, (y, x) in seen:
        middle = [x.mean() + 0.5, y.mean() + 0.5, 1.0]
        ray = camera.w2c[:3, :3].T @ np.linalg.solve(camera.K, middle)
        ray /= np.linalg.norm(ray)
        across = np.eye(3) - np.outer(ray, ray)
        normal, right = normal + across, right + across @ camera.position
    if len(seen) < 2 or np.linalg.cond(normal) > 1e6:
        why = "silhouettes in fewer than two directions say nothing about where the object is"
        raise UserError(f"{why}; add photographs from other sides")
    centre, cameras = np.linalg.solve(normal, right), [camera for camera, _ in seen]
    depths = _depths(cameras, centre)
    if (depths <= 0).any():
        raise UserError("the silhouettes meet behind a camera; check the masks")
    radii = np.array([np.sqrt(len(y) / np.pi) for _, (y, _) in seen])
    return centre, float(np.median(radii * depths / _focal(cameras)))


def _depths(cameras: list[Camera], point: np.ndarray) -> np.ndarray:
    return np.array([(c.w2c[:3] @ np.append(point, 1))[2] for c in cameras])


def _focal(cameras: list[Camera]) -> np.ndarray:
    return np.array([math.sqrt(c.K[0, 0] * c.K[1, 1]) for c in cameras])


def mean_colour(images: list[np.ndarray]) -> np.ndarray:
    """(3,) in 0..1 of what the silhouettes hold."""
    sums = np.sum([image.reshape(-1, 4).sum(axis=0, dtype=np.float64) for image in images], axis=0)
    return sums[:3] / max(sums[3], 1.0)


def measured(picture: np.ndarray, photo: np.ndarray) -> dict[str, float]:
    """IoU of the silhouettes, PSNR over the whole picture on black, and over the photograph's
    object alone. picture: (H, W, 4) float; photo: uint8."""
    wanted = photo.astype(np.float64) / 255
    inside, covered = wanted[..., 3] > 0.5, picture[..., 3] > 0.5
    error = ((np.clip(picture[..., :3], 0, 1) - wanted[..., :3]) ** 2).mean(axis=2)
    return {
        "iou": float((inside & covered).sum() / max((inside | covered).sum(), 1)),
        "psnr": decibels(error.mean()),
        "psnr_object": decibels(error[inside].mean() if inside.any() else 0.0),
    }


def decibels(mse: float) -> float:
    return -10 * math.log10(max(float(mse), 1e-10))
