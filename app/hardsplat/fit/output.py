"""Pictures that a fit leaves: difference, time-lapse, curve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2  # resamples by area, some 5 times as fast as Pillow
import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import to_uint8
from hardsplat.io.media.video import VideoWriter
from hardsplat.report import charts

FPS, LARGEST = 30, 1920  # of the time-lapse: pictures a second, and its longer side in px


def difference(image: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8: half of image - photo, both in 0..1, around mid-grey."""
    return to_uint8(0.5 + 0.5 * (np.clip(np.nan_to_num(image), 0, 1) - photo))


class TimeLapse:
    """A video of pictures of width x height px, made smaller where they are very large. An error
    costs a line, not the fit."""

    def __init__(self, path: Path, width: int, height: int):
        scale = min(1.0, LARGEST / max(width, height))
        self._size = max(1, round(width * scale)), max(1, round(height * scale))
        self._writer = None
        with self._excused():
            self._writer = VideoWriter(path, *self._size, FPS)

    @contextmanager
    def _excused(self) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            self._writer = None
            tqdm.write(f"note: {error}; the fit continues without its time-lapse")

    def add(self, image: np.ndarray) -> None:
        """(H, W, 3) float in 0..1."""
        if self._writer is None:
            return
        frame = to_uint8(image)
        if frame.shape[1::-1] != self._size:
            frame = cv2.resize(frame, self._size, interpolation=cv2.INTER_AREA)
        with self._excused():
            self._writer.write(frame)

    def close(self) -> None:
        if self._writer is not None:
            with self._excused():
                self._writer.close()


def write_plot(path: Path, title: str, steps: list, psnrs: list, seconds: list) -> None:
    """PSNR against time on the GPU, and against steps."""
    figure = charts.figure(9, 4)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, x, label in zip(axes, (seconds, steps), ("time on the GPU [s]", "step")):
        axis.plot(x, psnrs, color="black", linewidth=1)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("PSNR [dB]")
    figure.suptitle(title)
    charts.save(figure, path)
