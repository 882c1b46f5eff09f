"""Photographs of viewpoints at the size at which they are shown, loaded in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import over
from hardsplat.io.scenes.masks import downsampled
from hardsplat.step.photos import pack
from hardsplat.view.splats.inputs import Inputs, Viewpoint


class PhotographCache:
    """background: (3,) colour behind transparent ones. inputs: are changed when one arrives."""

    def __init__(self, background, inputs: Inputs):
        self.background, self._inputs = background, inputs
        self._key: tuple | None = None
        self._future: Future | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="photograph")

    def words(self, point: Viewpoint, width: int, height: int) -> np.ndarray | None:
        """RGBA8 words of width x height px, None while they are being loaded. Raises UserError when
        they cannot be, once."""
        if point.photo is None:
            return None
        key = (point.name, width, height)
        if key != self._key:
            self._key = key
            self._future = self._pool.submit(self._load, point.photo, width, height)
            self._future.add_done_callback(self._arrived)
        if self._future is None or not self._future.done():
            return None
        try:
            return self._future.result()
        except UserError:
            self._future = None
            raise

    def _arrived(self, _: Future) -> None:
        self._inputs.changed = True

    def _load(self, photo: Callable[[], np.ndarray], width: int, height: int) -> np.ndarray:
        return pack(downsampled(over(photo(), self.background), width, height))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


WIDTH = 96  # px of one
ACROSS = 20  # of the texture
MOST = 2000


class Thumbnails:
    """points: whose photographs they are. aspect: height by width of all of them."""

    def __init__(self, points: Sequence[Viewpoint]):
        self._points = points[:MOST]
        first = points[0].camera if points else None
        self.aspect = float(np.clip(first.height / first.width, 0.4, 1.6)) if first else 0.75
        self._size = WIDTH, max(1, round(WIDTH * self.aspect))
        count = max(1, len(self._points))
        self._grid = min(ACROSS, count), -(-count // ACROSS)
        shape = self._grid[1] * self._size[1], self._grid[0] * WIDTH, 4
        self._texels = np.zeros(shape, np.uint8)
        self._there: set[int] = set()
        self._futures: dict[int, Future[np.ndarray]] = {}
        self._stale = True
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="thumbnails")

    @property
    def loading(self) -> bool:
        return bool(self._futures)

    def want(self, numbers: Iterable[int]) -> None:
        """Loads those of these cameras that are not there yet, and forgets other wishes."""
        wanted = [n for n in numbers if n < len(self._points)]
        for number, future in list(self._futures.items()):
            if number not in wanted and future.cancel():
                del self._futures[number]
        for number in wanted:
            if number not in self._there and number not in self._futures:
                self._futures[number] = self._pool.submit(self._load, number)

    def _load(self, number: int) -> np.ndarray:
        """(height, width, 4) uint8; grey where there is no photograph."""
        point, (width, height) = self._points[number], self._size
        image = Image.new("RGB", (width, height), (40, 40, 40))
        if point.photo is not None:
            with suppress(UserError):
                photo = np.ascontiguousarray(over(point.photo(), (0.0, 0.0, 0.0)))
                box = Image.Resampling.BOX
                image = Image.fromarray(photo).resize((width, height), box, reducing_gap=2)
        return np.asarray(image.convert("RGBA"))

    def place(self, number: int) -> tuple[float, float, float, float] | None:
        """Its corners in the texture, 0..1; None while it is not there."""
        if number not in self._there:
            return None
        row, column = divmod(number, self._grid[0])
        across, down = 1 / self._grid[0], 1 / self._grid[1]
        return column * across, row * down, (column + 1) * across, (row + 1) * down

    def atlas(self) -> np.ndarray | None:
        """(height, width, 4) uint8 of all of them, where that has changed."""
        for number, future in list(self._futures.items()):
            if future.done():
                del self._futures[number]
                row, column = divmod(number, self._grid[0])
                width, height = self._size
                x, y = column * width, row * height
                self._texels[y : y + height, x : x + width] = future.result()
                self._there.add(number)
                self._stale = True
        stale, self._stale = self._stale, False
        return self._texels if stale else None

    def destroy(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
