"""Photographs as most are, JPEG of three channels, decoded by OpenCV: it takes half of Pillow's
time and leaves Python to other threads meanwhile (docs/results/images.md)."""

from __future__ import annotations

import struct

import numpy as np

_START, _END = b"\xff\xd8\xff", b"\xff\xd9"
# markers of frames that are baseline, extended sequential, progressive
_FRAMES = (0xC0, 0xC1, 0xC2)
_ALONE = (0x01, *range(0xD0, 0xD9))  # markers without a segment


def size_of(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels of a JPEG file of three channels of 8 bits; None for other files,
    and for those that end early."""
    if not (data.startswith(_START) and data.endswith(_END)):
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker, length = struct.unpack_from(">xBH", data, at)
        if marker in _FRAMES:
            precision, height, width, channels = struct.unpack_from(">BHHB", data, at + 4)
            return (width, height) if (precision, channels) == (8, 3) and width and height else None
        at += 1 if marker == 0xFF else 2 if marker in _ALONE else 2 + length
    return None


def decoded(data: bytes) -> np.ndarray | None:
    """(H, W, 3) uint8, the pixels that Pillow gives, of a file that has a size by `size_of`; None
    where OpenCV cannot read it. EXIF orientation is ignored."""
    import cv2  # takes a tenth of a second

    how = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    except cv2.error:
        return None
    return None if pixels is None else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels)
