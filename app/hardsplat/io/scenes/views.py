"""Photographs of a scene with their cameras, opened as training sees them; how far these stand from
one another and from the origin, and whether training can tell them apart."""

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
from hardsplat.model.camera import Camera

_LEAST_EXTENT = 1e-15  # world units; squares of less, and of more than its inverse, leave float32
# distances of cameras from their mean over that from the origin, which are rounding of one place
_ROUNDING = 1e-12
# of the extent, by which float32 numbers of the size of the cameras' positions differ, and above
# which splats have no place, or their last steps are lost
_COARSEST, _COARSE = 1e-3, 3e-5


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
    extent, whole = extent_of([views[i] for i in train]), extent_of(views)
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
    away, step = _away(views)
    if step > _COARSEST * extent:
        what = f"its cameras stand {away:.2g} world units from the origin and {extent:.2g} apart"
        coarse = f"where float32 tells places {step:.1g} apart"
        raise UserError(f"{label}: {what}, {coarse}; move the scene to the origin")
    return train, extent


def far_note(views: Sequence[View], extent: float) -> Iterator[str]:
    """A note where the scene lies so far from the origin that training suffers."""
    away, step = _away(views)
    if step > _COARSE * extent:
        what = f"cameras stand {away:.2g} world units from the origin"
        yield f"{what}, where float32 tells places {step:.1g} apart: splats are sharper near it"


def extent_of(views: Sequence[View]) -> float:
    """1.1 times the largest distance of a camera from the mean of them; 0 where that is rounding
    of one place."""
    centres = np.array([view.camera.position for view in views])
    largest = float(np.linalg.norm(centres - centres.mean(axis=0), axis=1).max())
    return 1.1 * largest if largest > _ROUNDING * np.abs(centres).max() else 0.0


def _away(views: Sequence[View]) -> tuple[float, float]:
    """The largest coordinate of a camera, and how far float32 numbers of its size are apart, world
    units."""
    away = max(float(np.abs(view.camera.position).max()) for view in views)
    return away, float(np.spacing(np.float32(away)))
