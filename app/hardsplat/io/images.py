"""Photographs and renders as arrays: reading any common file as 8-bit RGB, writing PNG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from hardsplat.errors import UserError


def read_rgb8(path: str | Path) -> np.ndarray:
    """An image file as (H, W, 3) uint8, in the pixel layout of the file.

    Grey and palette become RGB; 16-bit channels keep their high byte; alpha is composited over black, as if the background were black.
    EXIF orientation is ignored, as COLMAP does, so pixels stay where the camera model has them.
    Raises UserError naming the file when it is missing, damaged, or holds no 8- or 16-bit pixels.
    """
    return _read(path, _rgb8)


def read_pixels(path: str | Path) -> np.ndarray:
    """read_rgb8, but (H, W, 4) uint8 where a pixel is not opaque: red, green and blue times alpha, and alpha."""
    return _read(path, _pixels)


def read_upright(path: str | Path) -> np.ndarray:
    """read_pixels, turned as its EXIF orientation says: the picture as a viewer shows it."""
    return _read(path, lambda image: _pixels(ImageOps.exif_transpose(image)))


def over(image: np.ndarray, background) -> np.ndarray:
    """(H, W, 3) uint8 from an image of read_pixels: transparent pixels show the background, (3,) in 0..1."""
    if image.shape[2] == 3:
        return image
    behind = (255 - image[..., 3:].astype(np.float32)) * np.asarray(background, np.float32)
    return np.rint(np.minimum(image[..., :3] + behind, 255)).astype(np.uint8)


def image_size(path: str | Path) -> tuple[int, int]:
    """(width, height) in pixels from the header of an image file; raises UserError like read_rgb8."""
    return _read(path, lambda image: image.size)


def _read(path, get):
    try:
        with Image.open(path) as image:
            return get(image)
    except FileNotFoundError as error:
        raise UserError(f"{path}: image not found") from error
    except UnidentifiedImageError as error:  # its words name a stream or a path, not a reason
        raise UserError(f"{path}: not a readable image: no format that is known here") from error
    except OSError as error:
        raise UserError(f"{path}: not a readable image: {error.strerror or _first_line(error, path)}") from error
    except Exception as error:  # decoders of damaged files raise almost anything
        raise UserError(f"{path}: not a readable image: {_first_line(error, path)}") from error


def _first_line(error, path):
    text = str(error).replace(repr(str(path)), "it")
    return text.splitlines()[0] if text.strip() else type(error).__name__


def _rgb8(image) -> np.ndarray:
    return np.ascontiguousarray(_pixels(image)[..., :3])


def _pixels(image) -> np.ndarray:
    if image.mode == "F":
        raise ValueError("floating-point pixels; convert it to 8 bits a channel")
    if image.mode.startswith("I"):  # 16-bit grey; 32 bits wide in some versions of Pillow
        grey = np.asarray(image).astype(np.int64)
        if grey.min() < 0 or grey.max() > 65535:
            raise ValueError("pixels of more than 16 bits; convert it to 8 bits a channel")
        return np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if "A" in image.getbands() or "transparency" in image.info:
        rgba = np.array(image.convert("RGBA"))
        alpha = rgba[..., 3:].astype(np.uint16)
        if alpha.min() == 255:
            return np.ascontiguousarray(rgba[..., :3])
        rgba[..., :3] = (rgba[..., :3] * alpha + 127) // 255
        return rgba
    return np.array(image.convert("RGB"))


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Display values in [0, 1] (clamped; NaN becomes 0) as uint8 of the same shape; uint8 passes through."""
    image = np.asarray(image)
    if image.dtype == np.uint8:
        return image
    return np.rint(np.clip(np.nan_to_num(image, nan=0.0), 0, 1) * 255).astype(np.uint8)


def save_png(path: str | Path, image: np.ndarray) -> None:
    """Writes (H, W, 3) or (H, W), float in [0, 1] or uint8, as an 8-bit PNG; creates its folder. Raises UserError when it cannot be written."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.ascontiguousarray(to_uint8(image))).save(path, format="PNG")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
