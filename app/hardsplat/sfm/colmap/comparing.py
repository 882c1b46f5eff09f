"""Pairs of photographs of a database, matched and verified by several threads, and written
there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import lru_cache

import numpy as np
import pycolmap

from hardsplat.sfm.colmap import mapping
from hardsplat.sfm.colmap.database import is_panorama
from hardsplat.sfm.colmap.matching import FEWEST, match
from hardsplat.sfm.job.plan import match_error

_CHUNK = 64  # pairs that are written at once: what an interruption may cost
_CACHED = 200  # photographs whose descriptors are held as floats


class Comparison:
    """The photographs with these image ids. descriptors(i): (N, 128) float32 descriptors of length
    1 of the i-th, largest scale first."""

    def __init__(self, database: pycolmap.Database, ids: Sequence[int], image_size: int, seed: int):
        self._database, self._ids, self._seed = database, ids, seed
        self._stored = [database.read_descriptors(i).data.reshape(-1, 128) for i in ids]
        cameras = {camera.camera_id: camera for camera in database.read_all_cameras()}
        self._cameras = [cameras[database.read_image(i).camera_id] for i in ids]
        self._points = [database.read_keypoints(i)[:, :2].astype(np.float64) for i in ids]
        self._errors = [
            match_error(c.width, c.height, image_size, is_panorama(c)) for c in self._cameras
        ]
        self.descriptors = lru_cache(_CACHED)(self.first_descriptors)

    def first_descriptors(self, i: int, count: int | None = None) -> np.ndarray:
        descriptors = self._stored[i][:count].astype(np.float32)
        return descriptors / np.maximum(np.linalg.norm(descriptors, axis=1, keepdims=True), 1e-6)

    def left(self, wanted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those of the pairs, of indices, that the database does not have yet."""
        # also those that were found to match nowhere, which the list of all matches leaves out
        have, ids = self._database.exists_matches, self._ids
        return [(i, j) for i, j in wanted if not have(ids[i], ids[j])]

    def run(
        self, pairs: Sequence[tuple[int, int]], pool: Executor, progress: Callable[[int], None]
    ) -> None:
        """Compares the pairs and writes what is found. progress(done) is called now and then."""
        for first in range(0, len(pairs), _CHUNK):
            chunk = pairs[first : first + _CHUNK]
            results = list(pool.map(self._compare, chunk))
            with pycolmap.DatabaseTransaction(self._database):
                for (i, j), (matches, geometry) in zip(chunk, results):
                    self._database.write_matches(self._ids[i], self._ids[j], matches)
                    if geometry is not None:
                        self._database.write_two_view_geometry(self._ids[i], self._ids[j], geometry)
            progress(first + len(chunk))

    def _compare(self, pair: tuple[int, int]) -> tuple[np.ndarray, pycolmap.TwoViewGeometry | None]:
        i, j = pair
        matches = match(self.descriptors(i), self.descriptors(j))
        if len(matches) < FEWEST:
            return matches, None
        error = (self._errors[i] + self._errors[j]) / 2
        cameras, points = (self._cameras[i], self._cameras[j]), (self._points[i], self._points[j])
        return matches, mapping.two_view_geometry(cameras, points, matches, error, self._seed)
