"""Which photographs were taken by one camera, and its focal length as far as EXIF tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from PIL import Image

from hardsplat.io.media.images import stored_size

# EXIF tags, as numbered in the Exif standard (CIPA DC-008)
_MAKE, _MODEL, _EXIF = 0x010F, 0x0110, 0x8769
_FOCAL, _FOCAL_35MM, _ZOOM = 0x920A, 0xA405, 0xA404
_PLANE_RESOLUTION, _PLANE_UNIT, _PIXELS_X = 0xA20E, 0xA210, 0xA002
_SERIAL, _LENS = 0xA431, 0xA434
_UNIT_MM = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}
_DIAGONAL_35MM = math.hypot(36, 24)  # mm, by which 35 mm equivalents are defined (CIPA DCG-001)
_PLAUSIBLE = 0.2, 20.0  # focal length over the longer side


@dataclass(frozen=True)
class CameraBody:
    """What EXIF says of the camera that took a photograph.

    key: equal for photographs of one device at one focal length; empty where EXIF names neither.
    focal: px, None where unknown. named: EXIF has maker, model and focal length in mm. A database
    of sensors may find the focal length in pixels from them. panorama: it is equirectangular.
    """

    key: tuple = ()
    focal: float | None = None
    named: bool = False
    panorama: bool = False


@dataclass(frozen=True)
class SharedCamera:
    """A camera that several photographs share. width, height, focal: px; focal is None where it is
    unknown. named, panorama: as in CameraBody."""

    width: int
    height: int
    focal: float | None = None
    named: bool = False
    panorama: bool = False


def device_of(image: Image.Image) -> CameraBody:
    """The device that an opened image names. EXIF that is missing or damaged gives an empty
    CameraBody."""
    try:
        base = image.getexif()
        exif = base.get_ifd(_EXIF)
        make, model = _text(base.get(_MAKE)), _text(base.get(_MODEL))
        lens, serial = _text(exif.get(_LENS)), _text(exif.get(_SERIAL))
        focal_mm, focal_35, zoom = (_number(exif.get(tag)) for tag in (_FOCAL, _FOCAL_35MM, _ZOOM))
        focal = _pixels(exif, focal_mm, focal_35, stored_size(image))
    except Exception:  # Pillow's parser of damaged EXIF raises almost anything
        return CameraBody()
    if not (focal_mm or focal_35 or model):
        return CameraBody()
    key = make, model, lens, serial, focal_mm, focal_35, zoom
    return CameraBody(key, focal, bool(make and model and focal_mm))


def _pixels(exif, focal_mm, focal_35, size) -> float | None:
    width, height = size
    focal = None
    if focal_35:
        focal = focal_35 * math.hypot(width, height) / _DIAGONAL_35MM
    elif focal_mm and (resolution := _number(exif.get(_PLANE_RESOLUTION))):
        unit = _UNIT_MM.get(exif.get(_PLANE_UNIT, 2), 25.4)
        # the resolution is that of the picture before it was made smaller
        stored = _number(exif.get(_PIXELS_X)) or width
        focal = focal_mm / unit * resolution * width / stored
    return focal if focal and _PLAUSIBLE[0] <= focal / max(size) <= _PLAUSIBLE[1] else None


def _number(value) -> float | None:
    """A positive finite number, or None."""
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _text(value) -> str:
    return str(value).strip("\0 ") if value is not None else ""


def shared_cameras(
    names: Sequence[str], sizes: Sequence[tuple[int, int]], devices: Sequence[CameraBody], mode: str
) -> tuple[list[SharedCamera], list[int]]:
    """The cameras, and for each photograph the index of its own.

    mode: one of CAMERA_MODES. Photographs of different sizes never share a camera, whatever the
    mode.
    """
    keys = {
        "auto": lambda i: devices[i].key or ("folder", _folder(names[i])),
        "single": lambda i: (),
        "per-folder": lambda i: _folder(names[i]),
        "per-image": lambda i: names[i],
    }
    index: dict = {}
    cameras: list[SharedCamera] = []
    of: list[int] = []
    for i, size in enumerate(sizes):
        key = keys[mode](i), size, devices[i].panorama
        if key not in index:
            index[key] = len(cameras)
            d = devices[i]
            cameras.append(SharedCamera(*size, d.focal, d.named, d.panorama))
        of.append(index[key])
    return cameras, of


def _folder(name: str) -> str:
    return str(PurePosixPath(name).parent)
