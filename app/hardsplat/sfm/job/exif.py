"""What a photograph says of its camera, of where it was taken and of how it was held: EXIF, and
what drones and panoramas write in XMP.

Positions are WGS 84. XMP is searched, not parsed: it comes from strangers. Sources: Exif 2.32 (CIPA
DC-008), sections 4.6.5 and 4.6.6; developers.google.com/streetview/spherical-metadata.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image
from PIL.ExifTags import GPS, IFD
from PIL.ExifTags import Base as Tag

from hardsplat.io.media.images import orientation_of, stored_size
from hardsplat.io.media.panorama import is_whole

_FOCALS = Tag.FocalLength, Tag.FocalLengthIn35mmFilm, Tag.DigitalZoomRatio
_UNIT_MM = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}  # of FocalPlaneResolutionUnit
_DIAGONAL_35MM = math.hypot(36, 24)  # mm, by which 35 mm equivalents are defined (CIPA DCG-001)
_PLAUSIBLE = 0.2, 20.0  # focal length over the longer side
_XMP_READ = 1 << 16  # characters of XMP that are searched; a JPEG has no more in its first piece
_ROLLED = 5.0  # degrees, beyond which a gimbal's angles are not used
# EXIF orientation -> the direction, in the axes of the stored picture (+x right, +y down), that a
# viewer shows on top
_TOPS = dict.fromkeys((3, 4), (0.0, 1.0, 0.0)) | dict.fromkeys((5, 6), (-1.0, 0.0, 0.0))
_TOPS |= dict.fromkeys((7, 8), (1.0, 0.0, 0.0))
_TOP = 0.0, -1.0, 0.0


@dataclass(frozen=True)
class Taken:
    """device: equal for photographs of one camera at one focal length; empty where EXIF names
    neither. focal: px, None where it is unknown; in_mm: it is there in mm, which COLMAP may know
    in px by the sensor.

    gps: latitude and longitude, degrees, and altitude, metres, None where it is unknown. up: unit
    vector in OpenCV axes of the stored picture that pointed up, about; level: a gimbal measured it.
    panorama: the picture says that it shows all directions.
    """

    device: tuple = ()
    focal: float | None = None
    in_mm: bool = False
    gps: tuple[float, float, float | None] | None = None
    up: tuple[float, float, float] = _TOP
    level: bool = False
    panorama: bool = False


def taken_of(image: Image.Image) -> Taken:
    """What an opened image says; what is missing, damaged or impossible is left out."""
    up, panorama = None, False
    try:  # Pillow's parser of damaged EXIF raises almost anything
        size, xmp = stored_size(image), _xmp(image.info)
        up, panorama = _gimbal(xmp), _is_panorama(xmp, size)
        exif = image.getexif()
        top, gps = _TOPS.get(orientation_of(image), _TOP), _position(exif.get_ifd(IFD.GPSInfo))
        own = exif.get_ifd(IFD.Exif)
        said = [exif.get(tag) for tag in (Tag.Make, Tag.Model)]
        said += [own.get(tag) for tag in (Tag.LensModel, Tag.BodySerialNumber)]
        names = [str(name or "").strip("\0 ") for name in said]
        mm, mm_35, zoom = (_positive(own.get(tag)) for tag in _FOCALS)
        # COLMAP takes the pixels of the sensor for those of a picture that was made smaller
        shrunk = size[0] / (_positive(own.get(Tag.ExifImageWidth)) or size[0])
        unit = _UNIT_MM.get(own.get(Tag.FocalPlaneResolutionUnit, 2), 25.4)
        per_mm = _positive(own.get(Tag.FocalPlaneXResolution)) / unit
    except Exception:
        return Taken(up=up or _TOP, level=bool(up), panorama=panorama)
    focal = mm_35 * math.hypot(*size) / _DIAGONAL_35MM or mm * per_mm * shrunk
    plausible = _PLAUSIBLE[0] <= focal / max(size) <= _PLAUSIBLE[1]
    device = (*names, mm, mm_35, zoom) if mm or mm_35 or names[1] else ()
    of_camera = device, focal if plausible else None, bool(mm)
    return Taken(*of_camera, gps, up or top, bool(up), panorama)


def _position(ifd: Mapping[int, Any]) -> tuple[float, float, float | None] | None:
    latitude = _angle(ifd.get(GPS.GPSLatitude), ifd.get(GPS.GPSLatitudeRef), "NS", 90)
    longitude = _angle(ifd.get(GPS.GPSLongitude), ifd.get(GPS.GPSLongitudeRef), "EW", 180)
    if math.isnan(latitude + longitude) or not (latitude or longitude):
        return None  # zeros are what devices write that do not know
    below = ifd.get(GPS.GPSAltitudeRef) in (1, b"\x01")
    altitude = _number(ifd.get(GPS.GPSAltitude)) * (-1 if below else 1)
    return latitude, longitude, altitude if abs(altitude) < 1e5 else None


def _angle(value, reference, signs: str, most: float) -> float:
    """Degrees of (degrees, minutes, seconds) and a letter; NaN where they are no angle."""
    letter = str(reference or "").strip("\0 ").upper()
    numbers = [_number(number) for number in value] if isinstance(value, tuple) else []
    angle = sum(number / 60**k for k, number in enumerate(numbers))
    right = letter in tuple(signs) and len(numbers) == 3 and all(n >= 0 for n in numbers)
    return (angle if letter == signs[0] else -angle) if right and angle <= most else math.nan


def _number(value) -> float:
    """A value as a finite number; NaN where it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _positive(value) -> float:
    """A value as a number above 0; 0 where it is none."""
    number = _number(value)
    return number if number > 0 else 0.0


def _xmp(info: Mapping[Any, Any]) -> str:
    found = (info.get("xmp") or info.get("XML:com.adobe.xmp") or "")[:_XMP_READ]
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def _value(xmp: str, name: str) -> str:
    """The value of an XMP property, written as an attribute or an element; empty without it."""
    found = re.search(rf"""{name}\s{{0,9}}(?:=\s{{0,9}}["']|>)\s{{0,9}}([^"'<]{{1,40}})""", xmp)
    return found.group(1).strip() if found else ""


def _gimbal(xmp: str) -> tuple[float, float, float] | None:
    """The up direction of a drone's camera from the pitch of its gimbal: 0 level, -90 down."""
    pitch, roll = (_number(_value(xmp, f"drone-dji:Gimbal{n}Degree")) for n in ("Pitch", "Roll"))
    if not abs(pitch) <= 90 or abs(roll) > _ROLLED:
        return None
    return 0.0, -math.cos(math.radians(pitch)), math.sin(math.radians(pitch))


def _is_panorama(xmp: str, size: tuple[int, int]) -> bool:
    """Whether the picture is equirectangular and shows all directions."""
    if _value(xmp, "GPano:ProjectionType").lower() != "equirectangular" or not is_whole(*size):
        return False
    whole, shown = "GPano:FullPano{}Pixels", "GPano:CroppedAreaImage{}Pixels"
    for side in ("Width", "Height"):
        wide, own = (_number(_value(xmp, name.format(side))) for name in (whole, shown))
        if 0 < own < 0.99 * wide:
            return False
    return True
