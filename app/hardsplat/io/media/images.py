"""Photographs and renders as arrays: reading any common file as 8-bit RGB, writing PNG.

Pictures lie as their files store them, whatever EXIF says of their orientation: COLMAP ignores it,
so cameras and positions in the picture belong to stored pixels. This holds for size, pixels, grey
values and masks alike; `read_upright` alone turns them. Pillow turns TIFF by itself, which is
undone here. HEIC has no pixels but those that its own turns lead to, which are upright.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.ExifTags import Base as Tag

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_ends, replacing, written

log = logging.getLogger(__name__)
T = TypeVar("T")
# phones take pictures of 108 million pixels; _pixels looks for damage itself
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
# of files that are photographs, in lower case
ENDINGS = frozenset(".jpg .jpeg .png .tif .tiff .bmp .webp .avif .jp2 .ppm".split())
ENDINGS |= {".heic", ".heif", ".hif"}
_PNG_EFFORT = 3  # of 9: half the time of Pillow's 6 for files 2 % larger
_UNDOUBTED = 1 << 25  # pixels, of which some formats say so many in a few bytes where all are alike
_DENSEST = 10_000  # pixels a byte of a larger picture: deflate, at its best, has 8 256 of one bit
_JPEG_END = b"\xff\xd9"
_MOST_OF_12_BITS = 4095
_DARK: dict[Path, Path] = {}  # pictures that were named, by folder
# EXIF orientation -> the picture upright
_TURNS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a.swapaxes(0, 1)[::-1, ::-1],
    8: np.rot90,
}
_BACK = {6: 8, 8: 6}  # the orientation whose turn undoes that of another, where it is not its own


def read_rgb8(path: str | Path) -> np.ndarray:
    """An image file as (H, W, 3) uint8, in the pixel layout of the file.

    Grey and palette become RGB; 16-bit channels keep their high byte; alpha is composited over
    black, as if the background were black. Raises UserError naming the file when it is missing,
    damaged, or holds no 8- or 16-bit pixels.
    """
    return np.ascontiguousarray(read_pixels(path)[..., :3])


def read_pixels(path: str | Path) -> np.ndarray:
    """read_rgb8, but (H, W, 4) uint8 where a pixel is not opaque: red, green and blue times alpha,
    and alpha."""
    return _excused(path, lambda: _pixels(Path(path)))


def read_upright(path: str | Path) -> np.ndarray:
    """read_pixels, turned as its EXIF orientation says: the picture as a viewer shows it."""
    return _excused(path, lambda: _pixels(Path(path), upright=True))


def image_size(path: str | Path) -> tuple[int, int]:
    """(width, height) in pixels from the header of an image file; raises UserError like
    read_rgb8."""
    return of_header(path, stored_size)


def of_header(path: str | Path, read: Callable[[Image.Image], T]) -> T:
    """What `read` makes of a picture of which the header is read; raises UserError like
    read_rgb8."""

    def opened_and_read() -> T:
        with opened(path) as image:
            return read(image)

    return _excused(path, opened_and_read)


def opened(file: str | Path | io.BytesIO) -> Image.Image:
    """A picture of which the header is read. What it decodes may be turned, see `_stored`. Raises
    what Pillow raises."""
    try:
        return Image.open(file)
    except UnidentifiedImageError:
        if not _is_heif(file):
            raise
    import pi_heif  # takes a twentieth of a second

    pi_heif.register_heif_opener()
    return Image.open(file)


def stored_size(image: Image.Image) -> tuple[int, int]:
    """(width, height) in pixels of an opened picture, as its file stores it."""
    if image.format == "TIFF":
        return image.tag_v2[Tag.ImageWidth], image.tag_v2[Tag.ImageLength]  # type: ignore[attr-defined]
    return image.size


def orientation_of(image: Image.Image) -> int:
    """EXIF's, of an opened picture of which nothing is decoded yet."""
    return image.getexif().get(Tag.Orientation, 1)


def _stored(image: Image.Image, decode: Callable[[Image.Image], np.ndarray]) -> np.ndarray:
    """What decode(image) gives, (H, W, ...), as the file stores it."""
    turn = orientation_of(image) if image.format == "TIFF" else 1
    return _turned(decode(image), _BACK.get(turn, turn))


def _turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    return np.ascontiguousarray(_TURNS.get(orientation, lambda a: a)(pixels))


def _is_heif(file: str | Path | io.BytesIO) -> bool:
    """Whether a file is of the container that phones use for HEIC."""
    if isinstance(file, io.BytesIO):
        return file.getvalue()[4:8] == b"ftyp"
    with open(file, "rb") as handle:
        return handle.read(8)[4:] == b"ftyp"


def read_grey(path: str | Path) -> np.ndarray:
    """(H, W) uint8 or uint16, the numbers of a picture of one channel; (H, W, C) of others. Raises
    UserError like read_rgb8."""

    def read():
        data = Path(path).read_bytes()  # OpenCV takes the memory that a chunk of a PNG announces
        with opened(io.BytesIO(data)) as image:
            check_size(*stored_size(image), len(data))
            grey = _stored(image, np.asarray)
        if image.mode.startswith("I"):  # 16 bits, 32 bits wide in some versions
            return _uint16(grey)
        if image.mode == "L":
            return grey
        return _pixels(Path(path))[..., :3]

    return _excused(path, read)


def _excused(path, read):
    """What read() returns; UserError for whatever it raises."""
    check_ends(Path(path))
    try:
        return read()
    except FileNotFoundError as error:
        raise UserError(f"{path}: image not found") from error
    except Exception as error:  # decoders of damaged files raise almost anything
        raise UserError(f"{path}: not a readable image: {_reason(error, path)}") from error


def _reason(error: Exception, path) -> str:
    if isinstance(error, UnidentifiedImageError):
        if _is_heif(path):
            return "it is HEIC or the like, damaged or of a kind that is not read; make it a JPEG"
        return "no format that is known here" if Path(path).stat().st_size else "it is empty"
    text = getattr(error, "strerror", None) or str(error).replace(repr(str(path)), "it")
    return text.splitlines()[0] if text.strip() else type(error).__name__


def check_size(width: int, height: int, nbytes: int) -> None:
    """Raises ValueError where a file of so few bytes cannot be a picture of that size."""
    if width * height > max(_UNDOUBTED, _DENSEST * nbytes):
        raise ValueError(f"it announces {width}x{height} pixels, too many for its bytes")


def _uint16(grey: np.ndarray) -> np.ndarray:
    if grey.dtype != np.uint16 and (grey.min() < 0 or grey.max() > 65535):
        raise ValueError("pixels of more than 16 bits; convert it to 8 bits a channel")
    return grey.astype(np.uint16)


def _pixels(path: Path, upright: bool = False) -> np.ndarray:
    """Pixels of read_pixels, or read_upright; checked, because damaged files ask for more bytes
    than they have."""
    data = path.read_bytes()
    with opened(io.BytesIO(data)) as image:
        check_size(*stored_size(image), len(data))
        turn = orientation_of(image) if upright else 1
        of_16_bits = ";16" in str(getattr(image, "tile", ""))
        if (pixels := _jpeg(image, data)) is None:
            pixels = _stored(image, _as_pixels)
    if of_16_bits and 0 < pixels[..., :3].max() <= _MOST_OF_12_BITS >> 8:
        _note_dark(path)
    return _turned(pixels, turn)


def _note_dark(path: Path) -> None:
    """Names one picture of a folder, whatever thread reads it first."""
    if _DARK.setdefault(path.parent, path) is path:
        what = f"has 16 bits and no number above {_MOST_OF_12_BITS}, so it is dark"
        log.warning("%s: %s; if such pictures hold 12 bits, multiply them by 16", path, what)


def _jpeg(image: Image.Image, data: bytes) -> np.ndarray | None:
    """(H, W, 3) uint8, the pixels that Pillow gives, of a JPEG of three channels that does not end
    early, by OpenCV: it takes half of Pillow's time and leaves Python to other threads meanwhile
    (docs/results/images.md). None for others, and where OpenCV cannot read it."""
    if image.format not in ("JPEG", "MPO") or image.mode != "RGB" or not data.endswith(_JPEG_END):
        return None
    import cv2  # takes a tenth of a second

    how = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    except cv2.error:
        return None
    return None if pixels is None else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels)


def _as_pixels(image: Image.Image) -> np.ndarray:
    if image.mode == "F":
        raise ValueError("floating-point pixels; convert it to 8 bits a channel")
    if image.mode.startswith("I"):  # 16-bit grey; 32 bits wide in some files
        grey = _uint16(np.asarray(image))
        return np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if not (image.mode.endswith("A") or "transparency" in image.info):
        return np.array(image.convert("RGB"))
    rgba = np.array(image.convert("RGBA"))
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
        open(partial, "wb") as handle,
    ):
        picture = Image.fromarray(np.ascontiguousarray(to_uint8(image)))
        picture.save(handle, "PNG", compress_level=_PNG_EFFORT)
