"""Photographs of a scene with their cameras, opened as training sees them, and whether training can
tell these apart."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import THREADS
from hardsplat.io.formats.base import ahead
from hardsplat.io.media.images import premultiplied, read_pixels
from hardsplat.io.media.panorama import Face, shared
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.lens import Lens
from hardsplat.io.scenes.masks import cut_out, fitted, masked, read_kept
from hardsplat.io.scenes.source import COARSEST, extent_of, is_far
from hardsplat.model.camera import Camera

_LEAST_EXTENT = 1e-15  # world units; squares of less, and of more than its inverse, leave float32


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Adds to what is raised how to do without the photograph of this name."""
    try:
        yield
    except UserError as error:
        without = f"--exclude {shlex.quote(name)}"
        raise UserError(f"{error}; replace it, or train without it: {without}") from error


@dataclass(frozen=True)
class View:
    """One photograph and the camera that load() makes it fit, a pinhole where that undistorts.

    name: as in the model, a path below the image folder. path: the file. stored: (width, height) of
    the file where it is larger than the camera's. lens: how the photograph is distorted where
    load() undistorts it, or else None. mask: the picture of what counts, None where all does.
    number: which of the scene's physical cameras took it, counted from 0. original: the camera of
    the full-size photograph as the scene's files have it. mask_mode: what becomes of pixels that
    the mask leaves out, a key of MODES in masks.py. group: the name of the photograph, of which the
    view is a part where it is a face of a panorama. rim: a lens that load() does not undo, where
    pixels of the photograph have no ray that can be drawn.
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
    group: str = ""
    rim: Lens | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.group or self.name)

    @property
    def is_part(self) -> bool:
        """Whether others show the rest of its photograph."""
        return self.group != self.name

    def load(self) -> np.ndarray:
        """(H, W, 3) uint8 of the camera's size, or (H, W, 4), premultiplied, where the file has
        transparent pixels: down-sampled by area, then undistorted. May be called from any thread.
        With a mask or a rim (H, W, 4), IGNORED where a pixel mixes in what the mask leaves out or
        has no ray.

        See read_pixels for other pixel types. Raises UserError naming the file when it is missing,
        damaged or of another size than it had.
        """
        size = size_of(self)
        if isinstance(face := self.lens, Face):
            whole = lambda: fitted(self._pixels(), face.width, face.height, None)  # noqa: E731
            image = shared(self.path, face, whole)
        else:
            image = self._pixels()
        image = fitted(image, *size, self.lens)
        if self.mask is not None:
            keep = read_kept(self.mask, *size, self.lens)
            image = masked(image, keep) if self.mask_mode == "ignore" else cut_out(image, keep)
        return masked(image, self.rim.seen()) if self.rim else image

    def _pixels(self) -> np.ndarray:
        """The file's, see read_pixels. Raises UserError where it has another size than it had."""
        with left_out(self.group):
            image = read_pixels(self.path)
        expected = self.stored or size_of(self)
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
    hidden = None if progress else True
    with tqdm(total=len(views), desc="photographs", unit="", disable=hidden) as bar:
        for image in ahead(views, lambda view: view.load(), THREADS):
            yield image
            bar.update()


def size_of(view: View) -> tuple[int, int]:
    """(width, height) of its camera."""
    return view.camera.width, view.camera.height


def by(size):
    """Words for (width, height)."""
    return f"{size[0]}x{size[1]}"


def training(views: Sequence[View], test: Sequence[int], label: str) -> tuple[list[int], float]:
    """The views that are not held out, and the extent of their cameras, see Scene. Raises UserError
    where they give the scene no scale, or one that float32 cannot hold."""
    if len(views) < 2:
        need = "training needs two or more, from different places"
        raise UserError(f"{label}: has one photograph; {need}")
    train = sorted(set(range(len(views))) - set(test))
    if not train:
        what = f"no view is left to train on, all {len(views)} are held out"
        raise UserError(f"{label}: {what}; use --test-every 0")
    cameras = [view.camera for view in views]
    extent, whole = extent_of([cameras[i] for i in train]), extent_of(cameras)
    if not extent:
        what = f"1 of {len(views)} views is left to train on"
        if len(train) > 1:
            what = f"all {len(train)} training cameras stand at one point"
        advice = "use --test-every 0, or more photographs"
        if not whole:
            what = f"all {len(views)} cameras stand at one point"
            advice = "take photographs from different places"
        raise UserError(f"{label}: {what}, which gives the scene no scale; {advice}")
    if not _LEAST_EXTENT < extent < 1 / _LEAST_EXTENT:
        what = f"its cameras are about {extent:.1g} world units from one another"
        raise UserError(f"{label}: {what}, which float32 cannot hold; scale the scene")
    if far := is_far(cameras, COARSEST):
        raise UserError(f"{label}: its {far}; subtract their mean from cameras and points")
    return train, extent
