"""Frames of a video that are worth keeping: sharp ones, evenly spread over the camera's motion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written

ANALYSED = 320  # px, longer side of the pictures that sharpness and motion are measured on
CANDIDATES = 8  # frames looked at for each that may be kept
MOTION = 0.06  # of the picture's width that the view should move from one kept frame to the next
_LOST = 0.3  # motion where no point of the last frame is found again: a cut, or a very fast turn
_SEARCHED = 8 << 20  # bytes at both ends of a video in which its projection is looked for
_PANORAMA = (  # Photo Sphere XMP, which other programs read as well
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" '
    b'xmlns:GPano="http://ns.google.com/photos/1.0/panorama/" '
    b'GPano:ProjectionType="equirectangular"/></rdf:RDF></x:xmpmeta>'
)
_QUALITY = 96  # of the JPEGs


def frames(path: Path, apart: float = 0.0) -> Iterator[tuple[float, np.ndarray]]:
    """(seconds, about; (H, W, 3) uint8) of a video, turned as the file says. apart: least seconds
    from one frame to the next.

    Raises UserError where it cannot be read.
    """
    select = f"select='isnan(prev_selected_t)+gte(t-prev_selected_t,{apart - 1e-6:.6f})'"
    how = ["-vf", select, "-fps_mode", "passthrough"]
    with _reading(path, output_params=how) as (meta, reader):
        width, height = meta["size"]
        step = max(apart, 1 / (meta["fps"] or 30))
        for number, data in enumerate(reader):
            yield number * step, np.frombuffer(data, np.uint8).reshape(height, width, 3)


def duration(path: Path) -> float:
    """Seconds that a video lasts, 0 where the file does not say. Raises UserError like frames."""
    with _reading(path) as (meta, _):
        return float(meta["duration"])


@contextmanager
def _reading(path: Path, **how) -> Iterator[tuple[dict, Iterator[bytes]]]:
    """What ffmpeg tells of a video, and its frames. Raises UserError with the last line of what
    ffmpeg said, which names the problem."""
    from imageio_ffmpeg import read_frames

    try:
        with closing(read_frames(f"file:{path.absolute()}", **how)) as reader:
            yield next(reader), reader
    except (OSError, RuntimeError, ValueError, KeyError, IndexError, StopIteration) as error:
        lines = [line.strip() for line in str(error).splitlines() if "===" not in line]
        why = next((line for line in reversed(lines) if line), type(error).__name__)
        raise UserError(f"{path}: not a readable video: {why.split('] ')[-1]}") from None


def spacing(seconds: float, most: int) -> float:
    """Seconds between the frames that are looked at, so that there are CANDIDATES for each of
    `most`."""
    return max(seconds / (most * CANDIDATES), 1 / 30) if seconds > 0 else 0.1


def measure(pictures: Iterator[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(N,) sharpness and (N,) motion of pictures (H, W, 3) uint8 that follow each other.

    Sharpness is the variance of the Laplacian; motion is the median displacement of points since
    the picture before, over the width.
    """
    sharpness, motion, last = [], [], None
    for picture in pictures:
        scale = ANALYSED / max(picture.shape[:2])
        if scale < 1:
            picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        grey = cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2GRAY)
        sharpness.append(cv2.Laplacian(grey, cv2.CV_32F).var())
        motion.append(0.0 if last is None else _displacement(last, grey))
        last = grey
    return np.array(sharpness), np.array(motion)


def _displacement(before: np.ndarray, after: np.ndarray) -> float:
    points = cv2.goodFeaturesToTrack(before, 200, 0.01, 7)
    if points is None or len(points) < 8:
        return 0.0  # nothing to see, so nothing is seen to move
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        before, after, points, None, winSize=(15, 15), maxLevel=3
    )  # type: ignore[call-overload]  # None: there is no guess, which the stub does not know
    kept = found.ravel() == 1
    if kept.sum() < 0.2 * len(points):
        return _LOST
    moves = np.linalg.norm((moved - points).reshape(-1, 2)[kept], axis=1)
    return min(_LOST, float(np.median(moves)) / before.shape[1])


def choose(sharpness: np.ndarray, motion: np.ndarray, most: int) -> list[int]:
    """Indices of at most `most` pictures: the sharpest within each of equal shares of the way that
    the view moved.

    A share is MOTION wide, or as wide as `most` asks for; a camera that stands still adds nothing.
    At least three pictures where there are that many.
    """
    way = np.cumsum(motion)
    count = int(np.clip(round(way[-1] / MOTION) + 1, min(3, len(way)), min(most, len(way))))
    share = np.minimum((way / max(way[-1], 1e-9) * count).astype(int), count - 1)
    if len(np.unique(share)) < min(3, len(way)):
        # a camera that does not move: spread over time instead
        share = np.arange(len(way)) * count // len(way)
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
    try:
        with open(video, "rb") as file:
            data = file.read(_SEARCHED)
            file.seek(max(len(data), video.stat().st_size - _SEARCHED))
            data += file.read(_SEARCHED)
    except OSError:
        return False  # the reader says what is wrong
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
    apart = spacing(duration(video), most)
    seen = 0

    def looked_at():
        nonlocal seen
        for _, picture in frames(video, apart):
            seen += 1
            progress(seen, 2 * max(seen, most * CANDIDATES))
            yield picture

    sharpness, motion = measure(looked_at())
    if not seen:
        raise UserError(f"{video}: has no frames")
    wanted = set(choose(sharpness, motion, most))
    count = 0
    for number, (_, picture) in enumerate(frames(video, apart)):
        progress(seen + number + 1, 2 * seen)
        if number in wanted:
            count += 1
            with written(folder), replacing(folder / f"frame_{count:05d}.jpg") as partial:
                image = Image.fromarray(picture)
                how = dict(xmp=_PANORAMA) if panorama else {}
                image.save(partial, format="JPEG", quality=_QUALITY, subsampling=0, **how)
            if count == len(wanted):
                break
    return count
