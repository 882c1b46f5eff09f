"""Video files through imageio: its PyAV plugin encodes MP4 and WebP within the process, its Pillow
plugin makes GIF.

WebP goes through PyAV too, since the Pillow plugin holds every frame until the file is closed: a
GIF's frames, which have no other way, are held with a byte a pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# a matrix a pixel: imageio has none, and what PyAV converts by itself is Rec. 601, whatever the
# tags say
import cv2
import imageio.v3 as iio
import numpy as np

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import replacing

MOST_HELD = 2 << 30  # bytes of frames that a GIF may take before it is written
_R, _G, _B = 0.2126, 0.7152, 0.0722  # Rec. ITU-R BT.709, item 3.2
# of 8-bit RGB, (3, 4), to Y, Cb and Cr of limited range, items 3.3 to 3.5
_TO_YUV = np.array(
    [
        [219 / 255 * _R, 219 / 255 * _G, 219 / 255 * _B, 16],
        [-112 / 255 * _R / (1 - _B), -112 / 255 * _G / (1 - _B), 112 / 255, 128],
        [112 / 255, -112 / 255 * _G / (1 - _R), -112 / 255 * _B / (1 - _R), 128],
    ]
)
_BT709, _LIMITED = 1, 1  # in ITU-T H.273: matrix, primaries and transfer; range


@dataclass(frozen=True)
class Codec:
    """How one kind of file is written. open(handle, fps) -> imageio's file; write(file, frame,
    ends), where `ends` are the seconds at which the frames so far end.

    even: sides must be even. held: all frames are held in memory, a byte a pixel, until the file is
    closed.
    """

    open: Callable
    write: Callable
    even: bool = False
    held: bool = False


def _open_mp4(handle, fps: float):
    file = _opened(handle, "mp4", movflags="faststart")
    file.init_video_stream("libx264", fps=fps, pixel_format="yuv420p")
    context = _context(file)
    context.options = {"crf": "17"}
    context.colorspace = context.color_primaries = context.color_trc = _BT709
    context.color_range = _LIMITED
    return file


def _open_webp(handle, fps: float):
    file = _opened(handle, "webp", loop="0")
    file.init_video_stream("libwebp_anim", fps=fps, pixel_format="yuv420p")
    _context(file).options = {"quality": "85"}
    return file


def _opened(handle, kind: str, **options: str):
    return iio.imopen(  # type: ignore[call-overload]
        handle, "w", plugin="pyav", extension=f".{kind}", container=kind, container_options=options
    )


def _context(file):
    # imageio has no public place for quality and colour tags
    return file._video_stream.codec_context


def _write_mp4(file, frame: np.ndarray, ends: list[float]) -> None:
    planes = np.ascontiguousarray(cv2.transform(frame, _TO_YUV).transpose(2, 0, 1))
    file.write_frame(planes, pixel_format="yuv444p")


def _write_gif(file, frame: np.ndarray, ends: list[float]) -> None:
    # GIF counts hundredths of a second, Pillow thousandths
    durations = (10 * np.diff(np.round(100 * np.array(ends)), prepend=0)).astype(int).tolist()
    duration = durations if len(durations) > 1 else durations[0]
    # bits: 256 colours of each frame's own
    file.write(frame, is_batch=False, bits=8, duration=duration, loop=0)


CODECS = {  # by extension
    ".mp4": Codec(_open_mp4, _write_mp4, even=True),
    ".gif": Codec(
        lambda handle, fps: iio.imopen(handle, "w", plugin="pillow", extension=".gif"),
        _write_gif,
        held=True,
    ),
    ".webp": Codec(_open_webp, lambda file, frame, ends: file.write_frame(frame)),
}


class VideoWriter:
    """Frames one after the other into a file that is there after close(), whose extension is one of
    CODECS.

    H.264 has even sides: a side that is not repeats its last line of pixels. Raises UserError when
    the file cannot be written or its codec is not there.
    """

    def __init__(self, path: str | Path, width: int, height: int, fps: float):
        self.path, self.shape, self._fps = Path(path), (height, width, 3), fps
        self._ends: list = []
        self._codec = CODECS[self.path.suffix.lower()]
        odd = self._codec.even and (height % 2 or width % 2)
        self._pad = ((0, height % 2), (0, width % 2), (0, 0)) if odd else None
        self._stack, self._file = ExitStack(), None
        with self._excused():
            partial = self._stack.enter_context(replacing(self.path.absolute(), durable=False))
            handle = self._stack.enter_context(open(partial, "w+b"))
            self._file = self._codec.open(handle, float(fps))

    @contextmanager
    def _excused(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._discard(error)
            if isinstance(error, UserError) or not isinstance(error, Exception):
                raise
            why = reason(error.__cause__ or error)
            raise UserError(f"{self.path}: cannot be written: {why}") from None

    def write(self, frame: np.ndarray) -> None:
        """(height, width, 3) uint8."""
        if frame.shape != self.shape or frame.dtype != np.uint8:
            wanted = f"a frame of {self.path} is {self.shape} uint8"
            raise ValueError(f"{wanted}, got {frame.shape} {frame.dtype}")
        if self._file is None:
            raise UserError(f"{self.path}: cannot be written: it is closed")
        if self._codec.held and frame.size // 3 * len(self._ends) > MOST_HELD:
            takes = f"takes more than {MOST_HELD >> 30} GiB before it is written"
            raise UserError(f"{self.path}: a GIF of more frames {takes}; write .mp4 or .webp")
        self._ends.append((len(self._ends) + 1) / self._fps)
        frame = np.ascontiguousarray(np.pad(frame, self._pad, "edge") if self._pad else frame)
        with self._excused():
            self._codec.write(self._file, frame, self._ends)

    def close(self) -> None:
        """Completes the file; one without frames is not made."""
        if self._file is None:
            return
        if not self._ends:
            self._discard(UserError("no frames"))
            return
        with self._excused():
            self._file.close()
            self._stack.close()
            self._file = None

    def _discard(self, error: BaseException) -> None:
        """Leaves no file, or the one that was there."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(Exception):
                file.close()
            file.close = lambda: None  # its __del__ would try again, aloud
        with suppress(OSError):  # what the handle still holds may not fit either
            self._stack.__exit__(type(error), error, error.__traceback__)


def frames(path: str | Path, apart: float = 0.0) -> Iterator[tuple[float, np.ndarray]]:
    """Reads a video frame by frame: (seconds from the first frame, (H, W, 3) uint8), turned upright
    as the file says.

    apart: least seconds from one frame to the next; frames between are decoded but not converted.
    Times are the file's own, so they are right for phones too, whose frames are not evenly spaced.
    Raises UserError where the video cannot be read: at once, or after the frames before the damage.
    """
    import av  # imageio's plugin, which is made of it, says times only by seeking to every frame

    try:
        with av.open(str(Path(path).absolute())) as container:
            if not container.streams.video:
                raise UserError(f"{path}: has no video in it")
            stream, first, due = container.streams.video[0], None, 0.0
            stream.thread_type = "AUTO"
            for number, frame in enumerate(container.decode(stream)):
                evenly = number / float(stream.guessed_rate or 30)
                seconds = evenly if frame.time is None else frame.time
                first = seconds if first is None else first
                if seconds - first >= due - 1e-6:
                    due = seconds - first + apart
                    pixels = frame.to_ndarray(format="rgb24")
                    yield seconds - first, np.rot90(pixels, frame.rotation // 90)
            if first is None:
                raise UserError(f"{path}: has no frames")
    except (av.FFmpegError, ValueError, OSError) as error:
        raise UserError(f"{path}: not a readable video: {reason(error)}") from None
