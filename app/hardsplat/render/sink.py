"""Where rendered frames go: a folder of stills, or videos. Encoding happens in other threads; a
Ctrl-C leaves what was handed over complete."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import written
from hardsplat.io.media.images import save_png
from hardsplat.io.media.video import CODECS, VideoWriter
from hardsplat.model.camera import Camera

AHEAD = 4  # frames a thread that may wait to be written


def is_video(path: Path) -> bool:
    return path.suffix.lower() in CODECS


def files_of(out: Path, modes: Sequence[str], names: Sequence[str], numbers: bool) -> list[Path]:
    """What a sink writes of frames by name. numbers: depth too."""
    if is_video(out):
        return [_video(out, mode, modes) for mode in modes]
    stills = [_still(out, name, mode, modes) for name in names for mode in modes]
    return [*stills, *(_numbers(out, name) for name in names if numbers)]


def _video(path: Path, mode: str, modes: Sequence[str]) -> Path:
    """`path`, or where there are several modes the same with the mode's name before the ending."""
    return path if len(modes) == 1 else path.with_stem(f"{path.stem}_{mode}")


def _still(folder: Path, name: str, mode: str, modes: Sequence[str]) -> Path:
    """NAME.png, or where there are several modes NAME.MODE.png."""
    return folder / f"{name}{f'.{mode}' if len(modes) > 1 else ''}.png"


def _numbers(folder: Path, name: str) -> Path:
    return folder / f"{name}.depth.npy"


class _Sink:
    """Runs jobs in `workers` threads; one of one thread runs them in order. What one raises comes
    out of the next call, or of the end."""

    def __init__(self, workers: int):
        self._pool, self._most = ThreadPoolExecutor(workers), AHEAD * workers
        self._pending: deque[Future] = deque()

    def _later(self, job, *given) -> None:
        while len(self._pending) >= self._most or (self._pending and self._pending[0].done()):
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(job, *given))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._pool.shutdown()  # waits for all
        failed = [e for job in self._pending if (e := job.exception())]
        for e in (*failed, *self._closed()):
            if kind is None:
                raise e

    def _closed(self) -> list[Exception]:
        return []


class Stills(_Sink):
    """Pictures in a folder, and NAME.depth.npy. Names may lie in folders of their own."""

    def __init__(self, folder: Path, modes: Sequence[str], transparent: bool):
        super().__init__(min(8, os.cpu_count() or 1))
        self.folder, self.modes, self.transparent = folder, modes, transparent

    def picture(self, name: str, mode: str, image: np.ndarray) -> None:
        pixels = image if self.transparent else image[..., :3]
        self._later(save_png, _still(self.folder, name, mode, self.modes), pixels)

    def numbers(self, name: str, values: np.ndarray) -> None:
        self._later(_save_npy, _numbers(self.folder, name), values)

    def written(self) -> list[Path]:
        return [self.folder]


class Videos(_Sink):
    """One file, or one a mode."""

    def __init__(self, path: Path, modes: Sequence[str], camera: Camera, fps: float):
        super().__init__(1)
        self.modes = modes
        self._writers: dict[str, VideoWriter] = {}
        try:
            for mode in modes:
                file = _video(path, mode, modes)
                self._writers[mode] = VideoWriter(file, camera.width, camera.height, fps)
        except UserError:
            self._closed()
            raise

    def picture(self, name: str, mode: str, image: np.ndarray) -> None:
        self._later(self._writers[mode].write, image[..., :3])

    def written(self) -> list[Path]:
        return [writer.path for writer in self._writers.values()]

    def _closed(self) -> list[Exception]:
        failed: list[Exception] = []
        for writer in self._writers.values():
            try:
                writer.close()
            except UserError as error:
                failed.append(error)
        return failed


def _save_npy(path: Path, values: np.ndarray) -> None:
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)
