"""Cuts a scene into upright blocks, seen from above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.model.region import OPEN

LEAST_SHARE = 0.35  # of a block's length that either half of a cut keeps
OUTLIERS = 0.01  # share of the splats at each end that do not count for the size of a scene
TILT = np.cos(np.radians(40))  # cosine between the cameras' up and the normal of their plane


@dataclass(frozen=True)
class BlockBox:
    """low, high: borders along the two horizontal axes, world units, those of the outermost boxes
    at -OPEN and OPEN. size: lengths of what lies in it, world units."""

    low: tuple[float, float]
    high: tuple[float, float]
    size: tuple[float, float]

    def holds(self, places: np.ndarray) -> np.ndarray:
        """(N,) bool: which of (N, 2) places lie in it; a border belongs to the box above it."""
        return np.all((places >= self.low) & (places < self.high), axis=1)


def upright_axes(cameras: Sequence[Camera], means: np.ndarray) -> np.ndarray:
    """(3, 3) rows: two horizontal axes, the first along the longer side of the splats, and up.

    Up is the normal of the plane through the cameras, turned to agree with their mean up vector;
    that vector itself where the cameras lie in no plane or look far from across it.
    """
    up = -np.mean([camera.w2c[1, :3] for camera in cameras], axis=0)
    up = up / max(float(np.linalg.norm(up)), 1e-12)
    centres = np.array([camera.position for camera in cameras])
    _, spread, rows = np.linalg.svd(centres - centres.mean(axis=0), full_matrices=False)
    if len(cameras) > 3 and spread[2] < 0.3 * spread[1] and abs(rows[2] @ up) > TILT:
        up = rows[2] * np.sign(rows[2] @ up)
    flat = means - np.outer(means @ up, up)
    flat = flat - np.median(flat, axis=0)
    flat = flat[np.linalg.norm(flat, axis=1) <= np.quantile(np.linalg.norm(flat, axis=1), 0.8)]
    along = np.linalg.svd(flat, full_matrices=False)[2][0]
    along = along - along @ up * up
    along = along / np.linalg.norm(along)
    return np.array([along, np.cross(up, along), up])


def whole(places: np.ndarray) -> BlockBox:
    """The box without borders around (N, 2) places."""
    low, high = np.quantile(places, [OUTLIERS, 1 - OUTLIERS], axis=0)
    return BlockBox(
        (-OPEN, -OPEN), (OPEN, OPEN), (float(high[0] - low[0]), float(high[1] - low[1]))
    )


def cut_in_two(box: BlockBox, places: np.ndarray) -> tuple[BlockBox, BlockBox]:
    """A box cut across its longer side at the median of the (N, 2) places in it, between 35 and
    65 % of its length."""
    axis = int(box.size[1] > box.size[0])
    low, high = _ends(places[:, axis])
    margin = LEAST_SHARE * (high - low)
    return _halves(
        box,
        axis,
        float(np.clip(np.median(places[:, axis]), low + margin, high - margin)),
        (low, high),
    )


def cut_into(places: np.ndarray, count: int) -> list[BlockBox]:
    """So many boxes; the one with the most places is cut next. places: (N, 2) of all splats."""
    return _cut_while(places, lambda boxes, splats: boxes < count)


def cut_to_fit(places: np.ndarray, fits: Callable[[int], bool], most: int) -> list[BlockBox]:
    """Boxes until each fits, at most so many. fits: whether one with n of the places does."""
    return _cut_while(places, lambda boxes, splats: boxes < most and not fits(splats))


def cut_grid(places: np.ndarray, columns: int, rows: int) -> list[BlockBox]:
    """columns x rows boxes: columns along the first axis with equally many places, and each cut
    along the second axis into rows alike."""
    return [
        box
        for column in _slices(whole(places), places, 0, columns)
        for box in _slices(column, places[column.holds(places)], 1, rows)
    ]


def _slices(box: BlockBox, places: np.ndarray, axis: int, count: int) -> list[BlockBox]:
    found = []
    for left in range(count, 1, -1):
        at = float(np.quantile(places[:, axis], 1 / left))
        first, box = _halves(box, axis, at, _ends(places[:, axis]))
        found.append(first)
        places = places[box.holds(places)]
    return [*found, box]


def _ends(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, [OUTLIERS, 1 - OUTLIERS])
    return float(low), float(high)


def _halves(
    box: BlockBox, axis: int, at: float, ends: tuple[float, float]
) -> tuple[BlockBox, BlockBox]:
    """What is below and above a cut. ends: of the places in the box along that axis."""

    def moved(pair: tuple[float, float], value: float) -> tuple[float, float]:
        return (value, pair[1]) if axis == 0 else (pair[0], value)

    below, above = moved(box.size, at - ends[0]), moved(box.size, ends[1] - at)
    return BlockBox(box.low, moved(box.high, at), below), BlockBox(
        moved(box.low, at), box.high, above
    )


def _cut_while(places: np.ndarray, more: Callable[[int, int], bool]) -> list[BlockBox]:
    """Cuts the box with the most places as long as more(boxes, places in it)."""
    boxes = [(whole(places), places)]
    while True:
        box, mine = largest = max(boxes, key=lambda pair: len(pair[1]))
        if len(mine) < 2 or not more(len(boxes), len(mine)):
            return sorted((box for box, _ in boxes), key=lambda box: (box.low, box.high))
        boxes = [pair for pair in boxes if pair is not largest]
        boxes += [(half, mine[half.holds(mine)]) for half in cut_in_two(box, mine)]
