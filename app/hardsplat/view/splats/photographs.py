"""Photographs of viewpoints at the size at which they are shown, loaded in the background."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import over
from hardsplat.io.scenes.masks import downsampled
from hardsplat.step.photos import pack
from hardsplat.view.splats.inputs import Viewpoint


class PhotographCache:
    """background: (3,) colour behind transparent ones."""

    def __init__(self, background):
        self.background, self._key = background, None
        self._future: Future | None = None
        self._taken = False  # whether the outcome was handed out
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="photograph")

    def words(self, point: Viewpoint, width: int, height: int) -> np.ndarray | None:
        """RGBA8 words of width x height px, None while they are being loaded. Raises UserError when
        they cannot be, once."""
        if point.photo is None:
            return None
        key = (point.name, width, height)
        if key != self._key:
            self._key, self._taken = key, False
            self._future = self._pool.submit(self._load, point.photo, width, height)
        if self._future is None or not self._future.done():
            return None
        self._taken = True
        try:
            return self._future.result()
        except UserError:
            self._future = None
            raise

    @property
    def arrived(self) -> bool:
        """Whether one is there that `words` has not handed out yet."""
        return self._future is not None and self._future.done() and not self._taken

    def _load(self, photo: Callable[[], np.ndarray], width: int, height: int) -> np.ndarray:
        return pack(downsampled(over(photo(), self.background), width, height))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
