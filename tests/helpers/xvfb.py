"""A display without a screen: starts Xvfb, reads what it shows, sends mouse and keys."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import needs

NEEDS_DISPLAY = pytest.mark.skipif(
    not shutil.which("Xvfb") or not shutil.which("xdotool"),
    reason=needs.lacking("no Xvfb or no xdotool"),
)


class Display:
    """folder: for its framebuffer."""

    def __init__(self, folder: Path, width: int = 800, height: int = 600):
        reading, writing = os.pipe()
        words = f"Xvfb -displayfd {writing} -screen 0 {width}x{height}x24 -nolisten tcp -fbdir"
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._process = subprocess.Popen([*words.split(), str(folder)], pass_fds=[writing], **quiet)
        os.close(writing)
        with os.fdopen(reading) as told:
            self.name = f":{told.readline().strip()}"
        self._file = folder / "Xvfb_screen0"

    def pixels(self) -> np.ndarray:
        """Returns (height, width, 3) uint8 as shown: the file is an XWD dump of 32 bits."""
        raw = self._file.read_bytes()
        header = struct.unpack(">25I", raw[:100])
        width, height, row, colors = header[4], header[5], header[12], header[19]
        words = np.frombuffer(raw, "<u4", height * row // 4, header[0] + 12 * colors)
        words = words.reshape(height, row // 4)[:, :width]
        return np.stack([words >> shift & 255 for shift in (16, 8, 0)], axis=2).astype(np.uint8)

    def do(self, *words) -> None:
        """xdotool's commands."""
        environment = os.environ | {"DISPLAY": self.name}
        subprocess.run(["xdotool", *map(str, words)], env=environment, check=True, timeout=20)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
