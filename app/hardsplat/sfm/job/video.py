"""Frames of a video that are worth keeping: sharp ones, evenly spread over the camera's motion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import cv2
import imageio.v3 as iio
import numpy as np
from PIL import Image

from hardsplat.base.files import replacing, written
from hardsplat.io.media.video import frames

ANALYSED = 320  # px, longer side of the pictures that sharpness and motion are measured on
CANDIDATES = 8  # frames looked at for each that may be kept
MOTION = 0.06  # of the picture's width that the view should move from one kept frame to the next
_STILL = 1e-6  # motion between any two, so that time parts what does not move
_LOST = 0.3  # motion where no point of the last frame is found again: a cut, or a very fast turn
_SEARCHED = 8 << 20  # bytes at both ends of a video in which its projection is looked for
_PANORAMA = (  # Photo Sphere XMP, which other programs read as well
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" '
    b'xmlns:GPano="http://ns.google.com/photos/1.0/panorama/" '
    b'GPano:ProjectionType="equirectangular"/></rdf:RDF></x:xmpmeta>'
)
FRAME = re.compile(r"frame_\d{5}\.jpg")
_JPEG = dict(format="JPEG", quality=96, subsampling=0)


def _measure(pictures: Iterator[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(N,) sharpness and (N,) motion of pictures (H, W, 3) uint8 that follow each other.

    Sharpness is the variance of the Laplacian; motion is the median displacement of points since
    the picture before, over the width.
    """
    sharpness, motion, last = [], [], None
    for picture in pictures:
        scale = min(1.0, ANALYSED / max(picture.shape[:2]))
        small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
        sharpness.append(cv2.Laplacian(grey, cv2.CV_32F).var())
        motion.append(0.0 if last is None else _displacement(last, grey))
        last = grey
    return np.array(sharpness), np.array(motion)


def _displacement(before: np.ndarray, after: np.ndarray) -> float:
    points = cv2.goodFeaturesToTrack(before, 200, 0.01, 7)
    if points is None or len(points) < 8:
        return 0.0  # nothing to see, so nothing is seen to move
    moved, found, _ = cv2.calcOpticalFlowPyrLK(  # type: ignore[call-overload]
        before, after, points, None, winSize=(15, 15), maxLevel=3
    )
    kept = found.ravel() == 1
    if kept.sum() < 0.2 * len(points):
        return _LOST
    moves = np.linalg.norm((moved - points).reshape(-1, 2)[kept], axis=1)
    return min(_LOST, float(np.median(moves)) / before.shape[1])


def _choose(sharpness: np.ndarray, motion: np.ndarray, most: int) -> list[int]:
    """Indices of at most `most` pictures: the sharpest within each of equal shares of the way that
    the view moved, which are MOTION wide, or as wide as `most` asks for.

    A camera that stands still adds nothing, but for three pictures where there are that many.
    """
    way = np.cumsum(motion + _STILL)
    count = int(np.clip(round(way[-1] / MOTION) + 1, min(3, len(way)), min(most, len(way))))
    share = np.minimum((way / way[-1] * count).astype(int), count - 1)
    chosen = []
    for s in np.unique(share):
        members = np.flatnonzero(share == s)
        edge = len(members) // 6  # left out, so that neighbours do not fall together
        middle = members[edge : len(members) - edge]
        chosen.append(int(middle[np.argmax(sharpness[middle])]))
    return chosen


def says_panorama(video: Path) -> bool:
    """Whether the file says that its frames are equirectangular, as "Spherical Video" V1 or V2 has
    it (github.com/google/spatial-media): in its first or last megabytes."""
    data = b""
    with suppress(OSError), open(video, "rb") as file:  # the reader says what is wrong
        data = file.read(_SEARCHED)
        file.seek(max(len(data), video.stat().st_size - _SEARCHED))
        data += file.read(_SEARCHED)
    second = re.search(rb"sv3d.{0,400}proj.{0,100}equi", data, re.DOTALL)
    return bool(second or re.search(rb"ProjectionType>\s{0,9}equirectangular", data))


def extract_frames(
    video: Path,
    folder: Path,
    most: int,
    progress: Callable[[int, int], None],
    panorama: bool = False,
) -> int:
    """Writes the frames worth keeping as JPEGs, frame_00001.jpg and so on, into `folder`; their
    number. panorama: the JPEGs say that they are equirectangular.

    progress(done, total) is called after each frame, in both passes over the video. Raises
    UserError where the video cannot be read or the folder not written.
    """
    apart, seen = 0.1, 0  # s between the frames that are looked at, so that there are CANDIDATES
    with suppress(Exception):  # what cannot be read is told by who reads it
        seconds = float(iio.immeta(video, plugin="pyav")["duration"])
        apart = max(seconds / (most * CANDIDATES), 1 / 30) if seconds else apart

    def looked_at() -> Iterator[np.ndarray]:
        nonlocal seen
        for _, picture in frames(video, apart):
            seen += 1
            progress(seen, 2 * max(seen, most * CANDIDATES))
            yield picture

    chosen = _choose(*_measure(looked_at()), most)
    saving: dict = _JPEG | (dict(xmp=_PANORAMA) if panorama else {})
    for number, (_, picture) in enumerate(frames(video, apart)):
        progress(seen + number + 1, 2 * seen)
        if number in chosen:
            path = folder / f"frame_{chosen.index(number) + 1:05d}.jpg"
            with written(path), replacing(path) as partial:
                Image.fromarray(picture).save(partial, **saving)
    return len(chosen)
