"""Masks: pictures that say which pixels of a photograph count, white, and which are ignored,
black."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.base.files import changed_at, check_listed
from hardsplat.io.media.images import read_grey
from hardsplat.io.media.panorama import Face
from hardsplat.io.scenes.lens import Lens
from hardsplat.io.scenes.source import composed

FOLDER = "masks"
FOLDERS = (FOLDER, "mask")  # the first that is there is read
# folders that others keep masks in, whose white means one thing here and another there
_ALIKE = re.compile(r"mask|segment|silhouette|matte", re.IGNORECASE)
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
_IGNORED = np.array([contract.CONSTANTS["IGNORED"]], "<u4").view(np.uint8)


class Masks:
    """Finds the masks of photographs below SCENE/masks or SCENE/mask, a folder that is listed once,
    by the names of docs/guide/troubleshooting.md."""

    def __init__(self, root: Path):
        self._there: dict[str, Path] = {}
        folders = [root / name for name in FOLDERS if (root / name).is_dir()]
        self.folder = folder = folders[0] if folders else None
        if folder is None:
            return
        check_listed(folder)
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in ENDINGS and path.is_file():
                self._there.setdefault(_key(path.relative_to(folder)), path)

    def of(self, name: str) -> Path | None:
        """The mask of the photograph `name`, a path below images/ or, with images/, below the
        scene; None where there is none."""
        names = dict.fromkeys((name.removeprefix("images/"), name)) if self._there else ()
        found = (self._there.get(_key(path)) for each in names for path in _names(Path(each)))
        return next(filter(None, found), None)


def _names(photo: Path) -> Iterator[Path]:
    """Those of its mask, the first first: as COLMAP, nerfstudio, RealityCapture and Metashape have
    them."""
    stem = photo.with_suffix("")
    yield from (photo.with_name(photo.name + ending) for ending in ENDINGS)
    yield photo
    yield from (stem.with_name(stem.name + ending) for ending in ENDINGS)
    for marked in (f"{photo.name}.mask", f"{stem.name}.mask", f"{stem.name}_mask"):
        yield from (photo.with_name(marked + ending) for ending in ENDINGS)


def unread(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Notes on folders that seem to hold masks, and are not read. names: of the photographs."""
    stems = {composed(Path(name).stem) for name in names}
    read = Masks(root).folder
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and path != read):
        if not _ALIKE.search(folder.name):
            continue
        pictures = (path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
        if any(composed(path.name).split(".")[0] in stems for path in pictures):
            where = "masks, white where a pixel counts, are read from masks/ or mask/"
            yield f"{folder} is not read: {where}" + " alone" * bool(read)


def _key(path: Path) -> str:
    return composed(path.with_suffix(path.suffix.lower()).as_posix())


def read_mask(path: Path) -> np.ndarray:
    """(H, W) uint8, 255 where a pixel counts, else 0. White is 255; 1 in a mask of 0 and 1, and
    65535 in one of 16 bits that has more than 255. Raises UserError like read_rgb8."""
    levels = read_grey(path)
    grey = levels if levels.ndim == 2 else levels.max(axis=2)
    most = int(grey.max())
    white = 1 if most <= 1 else 255 if most <= 255 else 65535
    return np.where(grey > white // 2, np.uint8(255), np.uint8(0))


@lru_cache(maxsize=1 << 14)
def kept_bits(
    path: Path, changed: int, width: int, height: int, lens: Lens | Face | None
) -> np.ndarray:
    """What a mask keeps of a photograph after `fitted`: a bit a pixel, packed by rows, so that
    masks are decoded once and take a 24th of the photographs.

    changed: time of the file's last change, so that another file is read. Raises UserError like
    read_rgb8, and where nothing is kept.
    """
    # a pixel that mixes in an ignored one is ignored
    keep = fitted(read_mask(path), width, height, lens) == 255
    if not keep.any():
        what = "keeps no pixel; white, 255 or 1, is what counts, black what is ignored"
        raise UserError(f"{path}: {what}: correct it, or leave its photograph out (--exclude)")
    return np.packbits(keep)


def read_kept(path: Path, width: int, height: int, lens: Lens | Face | None) -> np.ndarray:
    """(height, width) uint8, 255 where a pixel of the fitted photograph counts, else 0. Raises
    UserError like kept_bits."""
    packed = kept_bits(path, changed_at(path), width, height, lens)
    bits = np.unpackbits(packed, count=width * height)
    return bits.reshape(height, width) * np.uint8(255)


def fitted(image: np.ndarray, width: int, height: int, lens: Lens | Face | None) -> np.ndarray:
    """A picture as its pinhole camera has it: down-sampled by area to width x height px, or to what
    the lens takes, then undistorted."""
    if lens:
        width, height = lens.width, lens.height
    if image.shape[1::-1] != (width, height):
        image = resampled(image, width, height)
    return lens.undistort(image) if lens else image


MODES = {
    "ignore": "what a mask leaves out is ignored",
    "transparent": "it is transparent, as in pictures that were cut out: it shows the background",
    "opacity": "transparent before backgrounds of random colours, so that nothing may stand there, "
    "whatever its colour",
}


def cut_out(image: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """(H, W, 4) uint8, premultiplied, from an image of read_pixels: transparent where keep (H, W)
    is black, and in between where it was resampled."""
    rgba = _with_alpha(image)
    return ((rgba * keep[..., None].astype(np.uint16) + 127) // 255).astype(np.uint8)


def masked(image: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """(H, W, 4) uint8 from an image of read_pixels: the word IGNORED where keep (H, W), resampled
    from a mask, is not all white."""
    rgba = _with_alpha(image)
    rgba[keep < 255] = _IGNORED
    return rgba


def _with_alpha(image: np.ndarray) -> np.ndarray:
    """(H, W, 4) uint8 of (H, W, 3 or 4), opaque where it has no alpha; a copy."""
    rgba = np.full((*image.shape[:2], 4), 255, np.uint8)
    rgba[..., : image.shape[2]] = image
    return rgba


def resampled(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """(height, width, ...) uint8: an image at another size, by area."""
    # some 5 times as fast as Pillow, and imageio has no resampling; its import takes a tenth of a
    # second
    import cv2

    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def downsampled(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """An image of View.load() at another size, by area. A pixel that mixes in an ignored one is
    ignored."""
    small = resampled(image, width, height)
    if image.shape[2] == 3:
        return small
    return masked(small, resampled(np.uint8(255) * kept(image), width, height))


def count_kept(image: np.ndarray) -> int:
    """How many pixels of an image of View.load() count."""
    if image.shape[2] == 3:
        return image.shape[0] * image.shape[1]
    return int(np.count_nonzero(kept(image)))


def kept(image: np.ndarray) -> np.ndarray:
    """(H, W) bool: which pixels of an image of View.load() count."""
    if image.shape[2] == 3:
        return np.ones(image.shape[:2], bool)
    # by channels it takes 25 times as long
    words = np.ascontiguousarray(image).view(np.uint32)[..., 0]
    return words != _IGNORED.view(np.uint32)
