"""Photographs of a scene with their cameras, opened as training sees them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.io.formats.base import ahead
from hardsplat.io.media.images import premultiplied, read_pixels
from hardsplat.io.media.panorama import Face, shared
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.lens import Lens
from hardsplat.io.scenes.masks import cut_out, fitted, masked, read_kept
from hardsplat.model.camera import Camera


@dataclass(frozen=True)
class View:
    """One photograph and the camera that load() makes it fit, a pinhole where that undistorts.

    name: as in the model, a path below the image folder. path: the file. stored: (width, height) of
    the file where it is larger than the camera's. lens: how the photograph is distorted where
    load() undistorts it, or else None. mask: the picture of what counts, None where all does.
    number: which of the scene's physical cameras took it, counted from 0. original: the camera of
    the full-size photograph as the scene's files have it. mask_mode: what becomes of pixels that
    the mask leaves out, a key of MODES in masks.py. photograph: the name of the one that the view
    is a part of, where it is a face of a panorama.
    """

    name: str
    camera: Camera
    path: Path
    stored: tuple[int, int] | None = None
    lens: Lens | Face | None = None
    mask: Path | None = None
    number: int = 0
    original: ColmapCamera | None = field(default=None, compare=False)
    mask_mode: str = "ignore"
    photograph: str = ""

    def load(self) -> np.ndarray:
        """(H, W, 3) uint8 of the camera's size, or (H, W, 4), premultiplied, where the file has
        transparent pixels: down-sampled by area, then undistorted. May be called from any thread.
        With a mask (H, W, 4), IGNORED where a pixel mixes in what the mask leaves out.

        See read_pixels for other pixel types. Raises UserError naming the file when it is missing,
        damaged or of another size than it had.
        """
        size = size_of(self)
        if isinstance(self.lens, Face):
            of = self.lens.width, self.lens.height
            image = shared(self.path, self.lens, lambda: fitted(self._pixels(), *of, None))
        else:
            image = self._pixels()
        image = fitted(image, *size, self.lens)
        if self.mask is None:
            return image
        keep = read_kept(self.mask, *size, self.lens)
        return masked(image, keep) if self.mask_mode == "ignore" else cut_out(image, keep)

    def _pixels(self) -> np.ndarray:
        """The file's, see read_pixels. Raises UserError where it has another size than it had."""
        image, expected = read_pixels(self.path), self.stored or size_of(self)
        if (found := image.shape[1::-1]) != expected:
            what = f"is {by(found)} and should be {by(expected)}"
            raise UserError(f"{self.path}: {what}; it changed since the scene was opened")
        return image


@dataclass(frozen=True)
class ArrayView(View):
    """A photograph in memory: image (H, W, 3) uint8, or (H, W, 4) with straight alpha."""

    image: np.ndarray = field(kw_only=True, repr=False)

    def load(self) -> np.ndarray:
        """(H, W, 3 or 4) uint8, see View.load."""
        if self.image.shape[2] == 3:
            return self.image
        return premultiplied(self.image)


def load_images(views: Sequence[View], progress: bool = True) -> Iterator[np.ndarray]:
    """Each view's load() in order, read ahead by a few threads, so that memory holds only the next
    few. progress: a bar on a terminal."""
    hidden, workers = None if progress else True, min(8, os.cpu_count() or 1)
    with tqdm(total=len(views), desc="photographs", unit="", disable=hidden) as bar:
        for image in ahead(views, lambda view: view.load(), workers, 2 * workers):
            yield image
            bar.update()


def size_of(view: View) -> tuple[int, int]:
    """(width, height) of its camera."""
    return view.camera.width, view.camera.height


def by(size):
    """Words for (width, height)."""
    return f"{size[0]}x{size[1]}"
