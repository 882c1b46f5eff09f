"""Video files, encoded by the ffmpeg that comes with imageio-ffmpeg (or the system's)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from hardsplat.errors import UserError

_GIF = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1"  # 256 colours of its own for every frame
_H264 = "-vf scale=out_color_matrix=bt709 -colorspace bt709 -color_primaries bt709 -color_trc bt709 -c:v libx264 -crf 17 -pix_fmt yuv420p -movflags +faststart -f mp4"
CODECS = {  # by extension
    ".mp4": _H264.split(),
    ".gif": ["-vf", _GIF, "-c:v", "gif", "-loop", "0", "-f", "gif"],
    ".webp": "-c:v libwebp_anim -pix_fmt yuv420p -quality 85 -loop 0 -f webp".split(),  # said, or a % in the name would number files
}


class VideoWriter:
    """Frames one after the other into a file that is complete after close(), whose extension is one of CODECS.

    H.264 has even sides: a side that is not repeats its last line of pixels. Raises UserError when there is no ffmpeg or the file cannot be written.
    """

    def __init__(self, path: str | Path, width: int, height: int, fps: float):
        from imageio_ffmpeg import get_ffmpeg_exe

        self.path, self.shape = Path(path), (height, width, 3)
        codec = CODECS[self.path.suffix.lower()]
        self._pad = ((0, height % 2), (0, width % 2), (0, 0)) if "libx264" in codec else None
        size = f"{width + width % 2}x{height + height % 2}" if self._pad else f"{width}x{height}"
        self._said = tempfile.TemporaryFile()
        try:
            command = [get_ffmpeg_exe(), "-y", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", f"{fps:g}", "-i", "-", *codec, f"file:{self.path}"]
            # a session of its own: Ctrl-C is for us, who then close the file
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said, start_new_session=True)
        except (OSError, RuntimeError) as error:
            raise UserError(f"{self.path}: no ffmpeg to write it with ({str(error).splitlines()[0]}); pip install imageio-ffmpeg, or write stills into a folder") from None

    def write(self, frame: np.ndarray) -> None:
        """(height, width, 3) uint8."""
        if frame.shape != self.shape or frame.dtype != np.uint8:
            raise ValueError(f"a frame of {self.path} is {self.shape} uint8, got {frame.shape} {frame.dtype}")
        try:
            self._process.stdin.write(np.ascontiguousarray(np.pad(frame, self._pad, "edge") if self._pad else frame))
        except OSError:
            self.close()
            raise UserError(f"{self.path}: ffmpeg stopped") from None  # without a word

    def close(self) -> None:
        """Waits until the file is complete."""
        if self._process is None:
            return
        process, self._process = self._process, None
        try:
            process.stdin.close()
        except OSError:
            pass  # it ended before; its exit code says so
        code = process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        if code:
            raise UserError(f"{self.path}: cannot be written: {lines[-1] if lines else f'ffmpeg ended with {code}'}")
