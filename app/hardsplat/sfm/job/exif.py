"""What a photograph says of where it was taken and how it was held: EXIF's position and
orientation, and what drones and panoramas write in XMP.

Positions are WGS 84. XMP is searched, not parsed: it comes from strangers. Sources: Exif 2.32 (CIPA
DC-008), section 4.6.6; developers.google.com/streetview/spherical-metadata.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from hardsplat.io.media.images import orientation_of, stored_size
from hardsplat.io.media.panorama import is_whole

_GPS = 0x8825  # EXIF
_XMP_READ = 1 << 16  # characters of XMP that are searched; a JPEG has no more in its first piece
_ROLLED = 5.0  # degrees, beyond which a gimbal's angles are not used
# EXIF orientation -> the direction, in the axes of the stored picture (+x right, +y down), that a
# viewer shows on top
_TOPS = dict.fromkeys((3, 4), (0.0, 1.0, 0.0)) | dict.fromkeys((5, 6), (-1.0, 0.0, 0.0))
_TOPS |= dict.fromkeys((7, 8), (1.0, 0.0, 0.0))
_TOP = 0.0, -1.0, 0.0


@dataclass(frozen=True)
class Taken:
    """gps: latitude and longitude, degrees, and altitude, metres, None where it is unknown. up:
    unit vector in OpenCV axes of the stored picture that pointed up, about.

    level: a gimbal measured it. panorama: the picture says that it shows all directions.
    """

    gps: tuple[float, float, float | None] | None = None
    up: tuple[float, float, float] = (0.0, -1.0, 0.0)
    level: bool = False
    panorama: bool = False


def taken_of(image: Image.Image) -> Taken:
    """What an opened image says; what is missing, damaged or impossible is left out."""
    try:
        exif = image.getexif()
        gps = _position(exif.get_ifd(_GPS))
        top = _TOPS.get(orientation_of(image), _TOP)
    except Exception:  # Pillow's parser of damaged EXIF raises almost anything
        gps, top = None, _TOP
    xmp = _xmp(image.info)
    up = _gimbal(xmp)
    return Taken(gps, up or top, bool(up), _is_panorama(xmp, stored_size(image)))


def _position(ifd: Mapping[int, Any]) -> tuple[float, float, float | None] | None:
    latitude = _angle(ifd.get(2), ifd.get(1), "NS", 90)
    longitude = _angle(ifd.get(4), ifd.get(3), "EW", 180)
    if latitude is None or longitude is None or (latitude, longitude) == (0, 0):
        return None  # zeros are what devices write that do not know
    altitude = _finite(ifd.get(6))
    if altitude is not None and ifd.get(5) in (1, b"\x01"):
        altitude = -altitude
    return latitude, longitude, altitude if altitude is None or abs(altitude) < 1e5 else None


def _angle(value, reference, signs: str, most: float) -> float | None:
    """Degrees of (degrees, minutes, seconds) and a letter; None where they are no angle."""
    letter = str(reference or "").strip("\0 ").upper()
    if letter not in tuple(signs) or not isinstance(value, tuple) or len(value) != 3:
        return None
    numbers = [_finite(number) for number in value]
    if any(number is None or number < 0 for number in numbers):
        return None
    angle = sum(number / 60**k for k, number in enumerate(numbers) if number)
    return (angle if letter == signs[0] else -angle) if angle <= most else None


def _finite(value) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _xmp(info: Mapping[Any, Any]) -> str:
    found = info.get("xmp") or info.get("XML:com.adobe.xmp") or ""
    found = found[:_XMP_READ]
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def _value(xmp: str, name: str) -> str:
    """The value of an XMP property, written as an attribute or an element; empty without it."""
    found = re.search(rf"""{name}\s{{0,9}}(?:=\s{{0,9}}["']|>)\s{{0,9}}([^"'<]{{1,40}})""", xmp)
    return found.group(1).strip() if found else ""


def _gimbal(xmp: str) -> tuple[float, float, float] | None:
    """The up direction of a drone's camera from the pitch of its gimbal: 0 level, -90 down."""
    pitch, roll = (_finite(_value(xmp, f"drone-dji:Gimbal{n}Degree")) for n in ("Pitch", "Roll"))
    if pitch is None or abs(roll or 0) > _ROLLED or abs(pitch) > 90:
        return None
    return 0.0, -math.cos(math.radians(pitch)), math.sin(math.radians(pitch))


def _is_panorama(xmp: str, size: tuple[int, int]) -> bool:
    """Whether the picture is equirectangular and shows all directions."""
    if _value(xmp, "GPano:ProjectionType").lower() != "equirectangular" or not is_whole(*size):
        return False
    for side in ("Width", "Height"):
        whole = _finite(_value(xmp, f"GPano:FullPano{side}Pixels"))
        shown = _finite(_value(xmp, f"GPano:CroppedAreaImage{side}Pixels"))
        if whole and shown and shown < 0.99 * whole:
            return False
    return True
