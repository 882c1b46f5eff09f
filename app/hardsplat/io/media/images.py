"""Photographs and renders as arrays: reading any common file as 8-bit RGB, writing PNG."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

# by name when the first file is opened, for which all threads that read photographs would wait
import imageio.plugins.pillow  # noqa: F401
import imageio.v3 as iio
import numpy as np
from imageio.core.request import InitializationError

# for sizes alone: imageio takes 5 times as long to say them (docs/results/images.md)
from PIL import Image, UnidentifiedImageError

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.io.media import jpeg

try:
    import pillow_heif  # type: ignore[import-not-found]  # noqa: F401
except ImportError:
    # imageio would look for it in all folders for each file, with other threads waiting
    sys.modules["pillow_heif"] = None  # type: ignore[assignment]
# phones take pictures of 108 million pixels; _pixels looks for damage itself
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
# of files that are photographs, in lower case
ENDINGS = frozenset(".jpg .jpeg .png .tif .tiff .bmp .webp .avif .jp2 .ppm .heic .heif".split())
_PNG_EFFORT = 3  # of 9: half the time of Pillow's 6 for files 2 % larger
_UNDOUBTED = 1 << 25  # pixels, of which some formats say so many in a few bytes where all are alike
_DENSEST = 10_000  # pixels a byte of a larger picture: deflate, at its best, has 8 256 of one bit
# EXIF orientation -> the picture upright; imageio's own turns mirror grey and palette pictures
# along the wrong axis
_TURNS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a.swapaxes(0, 1)[::-1, ::-1],
    8: np.rot90,
}


def read_rgb8(path: str | Path) -> np.ndarray:
    """An image file as (H, W, 3) uint8, in the pixel layout of the file.

    Grey and palette become RGB; 16-bit channels keep their high byte; alpha is composited over
    black, as if the background were black. EXIF orientation is ignored, as COLMAP does, so pixels
    stay where the camera model has them. Raises UserError naming the file when it is missing,
    damaged, or holds no 8- or 16-bit pixels.
    """
    return np.ascontiguousarray(read_pixels(path)[..., :3])


def read_pixels(path: str | Path) -> np.ndarray:
    """read_rgb8, but (H, W, 4) uint8 where a pixel is not opaque: red, green and blue times alpha,
    and alpha."""
    return _excused(path, lambda: _read(path))


def read_upright(path: str | Path) -> np.ndarray:
    """read_pixels, turned as its EXIF orientation says: the picture as a viewer shows it."""
    pixels, orientation = _excused(path, lambda: _pixels(Path(path).read_bytes()))
    return np.ascontiguousarray(_TURNS.get(orientation, lambda a: a)(pixels))


def image_size(path: str | Path) -> tuple[int, int]:
    """(width, height) in pixels from the header of an image file; raises UserError like
    read_rgb8."""

    def size():
        with Image.open(path) as image:
            return image.size

    return _excused(path, size)


def read_grey(path: str | Path) -> np.ndarray:
    """(H, W) uint8 or uint16, the numbers of a picture of one channel; (H, W, C) of others. Raises
    UserError like read_rgb8."""

    def read():
        data = Path(path).read_bytes()  # OpenCV takes the memory that a chunk of a PNG announces
        with Image.open(io.BytesIO(data)) as image:
            check_size(*image.size, len(data))
            grey = np.asarray(image)
        if image.mode.startswith("I"):  # 16 bits, 32 bits wide in some versions
            return _uint16(grey)
        return grey if image.mode == "L" else np.asarray(image.convert("RGB"))

    return _excused(path, read)


def _excused(path, read):
    """What read() returns; UserError for whatever it raises."""
    try:
        return read()
    except FileNotFoundError as error:
        raise UserError(f"{path}: image not found") from error
    except Exception as error:  # decoders of damaged files raise almost anything
        raise UserError(f"{path}: not a readable image: {_reason(error, path)}") from error


def _reason(error: Exception, path) -> str:
    cause = error.__cause__ or error  # imageio's own words say less
    if isinstance(cause, (UnidentifiedImageError, InitializationError)):
        with open(path, "rb") as file:
            start = file.read(12)
        if start[4:8] == b"ftyp":  # as phones save them
            return "it is HEIC or the like; convert it to JPEG"
        return "no format that is known here" if start else "it is empty"
    text = getattr(cause, "strerror", None) or str(cause).replace(repr(str(path)), "it")
    return text.splitlines()[0] if text.strip() else type(cause).__name__


def _read(path) -> np.ndarray:
    """(H, W, 3 or 4) uint8, see read_pixels."""
    data = Path(path).read_bytes()
    size = jpeg.size_of(data)
    pixels = jpeg.decoded(data) if size and _plausible(*size, len(data)) else None
    return _pixels(data)[0] if pixels is None else pixels


def _plausible(width: int, height: int, nbytes: int) -> bool:
    """Whether a file of so few bytes may be a picture of that size."""
    return width * height <= max(_UNDOUBTED, _DENSEST * nbytes)


def check_size(width: int, height: int, nbytes: int) -> None:
    """Raises ValueError where a file of so few bytes cannot be a picture of that size."""
    if not _plausible(width, height, nbytes):
        raise ValueError(f"it announces {width}x{height} pixels, too many for its bytes")


def _uint16(grey: np.ndarray) -> np.ndarray:
    if grey.dtype != np.uint16 and (grey.min() < 0 or grey.max() > 65535):
        raise ValueError("pixels of more than 16 bits; convert it to 8 bits a channel")
    return grey.astype(np.uint16)


def _pixels(data: bytes) -> tuple[np.ndarray, int]:
    """Pixels of read_pixels, and the EXIF orientation, from the bytes of a file.

    Bytes, because imageio gives some names a meaning of their own; checked, because damaged files
    ask for more bytes than they have.
    """
    with iio.imopen(data, "r", plugin="pillow") as file:
        height, width = file.properties(index=0).shape[:2]
        check_size(width, height, len(data))
        about = file.metadata(index=0, exclude_applied=False)  # decodes a PNG
        return _as_pixels(file, about), about.get("Orientation", 1)


def _as_pixels(file, about: dict) -> np.ndarray:
    mode = about["mode"]
    if mode == "F":
        raise ValueError("floating-point pixels; convert it to 8 bits a channel")
    if mode.startswith("I"):  # 16-bit grey; 32 bits wide in some files
        grey = _uint16(file.read(index=0))
        return np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if not (mode.endswith("A") or "transparency" in about):
        return file.read(index=0, mode="RGB")
    rgba = file.read(index=0, mode="RGBA")
    if rgba[..., 3].min() == 255:
        return np.ascontiguousarray(rgba[..., :3])
    return premultiplied(rgba)


def premultiplied(rgba: np.ndarray) -> np.ndarray:
    """(H, W, 4) uint8, red, green and blue times alpha, of an image with straight alpha."""
    out = rgba.copy()
    out[..., :3] = (rgba[..., :3] * rgba[..., 3:].astype(np.uint16) + 127) // 255
    return out


def over(image: np.ndarray, background) -> np.ndarray:
    """(H, W, 3) uint8 from an image of read_pixels: transparent pixels show the background, (3,) in
    0..1."""
    if image.shape[2] == 3:
        return image
    behind = (255 - image[..., 3:].astype(np.float32)) * np.asarray(background, np.float32)
    return np.rint(np.minimum(image[..., :3] + behind, 255)).astype(np.uint8)


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Display values in [0, 1] (clamped; NaN becomes 0) as uint8 of the same shape; uint8 passes
    through."""
    image = np.asarray(image)
    if image.dtype == np.uint8:
        return image
    return np.rint(np.clip(np.nan_to_num(image, nan=0.0), 0, 1) * 255).astype(np.uint8)


def save_png(path: str | Path, image: np.ndarray) -> None:
    """Writes (H, W, 3) or (H, W), float in [0, 1] or uint8, as an 8-bit PNG; creates its folder.
    Raises UserError when it cannot be written."""
    with (
        written(path := Path(path)),
        replacing(path, durable=False) as partial,
        open(partial, "w+b") as handle,
        iio.imopen(handle, "w", plugin="pillow", extension=".png") as file,
    ):
        how: dict = dict(is_batch=False, compress_level=_PNG_EFFORT)
        file.write(np.ascontiguousarray(to_uint8(image)), **how)
