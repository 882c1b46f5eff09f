"""Whether photographs differ much in exposure, before anything is trained: by the colours in which
they show the points of the model.

The logarithm of a colour is that of its point, plus a gain of its photograph, plus what neither
explains: reflections, shadows, points that hide behind others. Where gains take away much of what
points alone leave unexplained, photographs differ. They differ much where even those that show the
same points do. What these have in common, as when a camera follows the light from place to place,
splats learn without exposures. Views that are held out see it as well
(docs/results/generalization.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hardsplat.io.scenes.views import View

POINTS = 4_000  # that most photographs show, and are compared
ASKED = 64  # photographs, evenly spread, that tell whether light differs
SHARE = 0.7  # of what points leave unexplained may stay with gains, where photographs differ
SPREAD = 0.14  # of gains, as logarithms, where photographs differ much
FEWEST = 16  # colours of a photograph that tell its gains
CALM = 0.95  # share of photographs, those that differ least, whose spread counts
ROUNDS = 8  # of the fit, each with weights of the one before
DARK, BRIGHT = 8, 247  # of 255: colours beyond them have lost what differs
NOISE = 0.03  # of logarithms, below which all residuals weigh alike


@dataclass(frozen=True)
class Light:
    """gains: (photographs, 3), logarithms of what each that was asked multiplies red, green and
    blue by, with a mean of 0. spread: standard deviation of what is left of them without the mean
    gains of photographs that show the same points, the few that differ most left out. left: share
    of the unexplained that stays with gains; 1 where nothing is known."""

    gains: np.ndarray
    spread: float = 0.0
    left: float = 1.0

    @property
    def differs(self) -> bool:
        return self.left < SHARE and self.spread >= SPREAD


def light_of(
    views: Sequence[View],
    images: Sequence[np.ndarray],
    points: np.ndarray,
    seen: Mapping[str, np.ndarray],
) -> Light:
    """images: of the views, as View.load() has them. points: (N, 3) world units. seen: which of
    them each photograph shows, by its name.

    ASKED of many views come first; where their light does not differ, that is all."""
    shown = [seen.get(view.photograph or view.name, np.zeros(0, np.int64)) for view in views]
    lengths = np.bincount(np.concatenate([*shown, np.zeros(0, np.int64)]), minlength=len(points))
    longest = np.argsort(-lengths, kind="stable")[:POINTS]
    chosen = np.zeros(len(points), bool)
    chosen[longest[lengths[longest] > 1]] = True
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def light(asked: Iterable[int]) -> Light:
        for i in asked:
            if i not in found:
                which, colors = _colors(views[i], images[i], points, shown[i][chosen[shown[i]]])
                enough = len(which) if len(which) >= FEWEST else 0
                found[i] = which[:enough], colors[:enough]
        return _light([found[i] for i in asked])

    if len(views) > ASKED:
        first = light(np.linspace(0, len(views) - 1, ASKED).round().astype(int).tolist())
        if not first.differs:
            return first
    return light(range(len(views)))


def _light(found: Sequence[tuple[np.ndarray, np.ndarray]]) -> Light:
    """found: of each photograph, see _colors."""
    photograph = np.repeat(np.arange(len(found)), [len(which) for which, _ in found])
    if not len(photograph):
        return Light(np.zeros((len(found), 3)))
    point = np.unique(np.concatenate([which for which, _ in found]), return_inverse=True)[1]
    return _fitted(np.log(np.concatenate([c for _, c in found])), photograph, point, len(found))


def _colors(
    view: View, image: np.ndarray, points: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which points an image shows in colours that say something, and their colours (M, 3) in
    0..255, each the mean of 3x3 pixels, every second one each way."""
    inside, (x, y), _ = view.camera.pixels(points[which])
    height, width = image.shape[:2]
    far = (x >= 2) & (x < width - 2) & (y >= 2) & (y < height - 2)
    which, x, y = which[inside[far]], x[far], y[far]
    around = [image[y + dy, x + dx] for dy in (-2, 0, 2) for dx in (-2, 0, 2)]
    patch = np.mean(around, axis=0, dtype=np.float64).reshape(-1, image.shape[2])
    color = patch[:, :3]
    says = (color.min(1, initial=255) > DARK) & (color.max(1, initial=0) < BRIGHT)
    if image.shape[2] == 4:  # transparent, or left out by a mask
        says &= patch[:, 3] == 255
    return which[says], color[says]


def _fitted(logs: np.ndarray, photograph: np.ndarray, point: np.ndarray, photographs: int) -> Light:
    """logs: (N, 3). photograph, point: (N,) of each. Minimizes the sum of absolute residuals, by
    weights; gains and points take turns."""
    points = int(point.max()) + 1
    gains, weights = np.zeros((photographs, 3)), np.ones(len(logs))
    alone = _size(logs - _means(logs, weights, point, points)[point])
    for _ in range(ROUNDS):
        colors = _means(logs - gains[photograph], weights, point, points)
        gains = _means(logs - colors[point], weights, photograph, photographs)
        gains -= gains.mean(axis=0)
        rest = logs - colors[point] - gains[photograph]
        weights = 1 / np.maximum(np.abs(rest).mean(axis=1), NOISE)
    left = _size(rest) / alone if alone else 1.0
    shared, calm = _shared(photograph, point, photographs), np.unique(photograph)
    most = max(int(CALM * len(calm)), 1)
    for _ in range(2):  # the second time without what the odd ones say of their neighbours
        weights = shared[np.ix_(calm, calm)]
        means = weights @ gains[calm] / np.maximum(weights.sum(axis=1, keepdims=True), 1)
        apart = gains[calm] - means
        least = np.argsort(np.abs(apart).max(axis=1), kind="stable")[:most]
        calm = calm[least]
    return Light(gains, float(apart[least].std()), left)


def _shared(photograph: np.ndarray, point: np.ndarray, photographs: int) -> np.ndarray:
    """(photographs, photographs): weights of the others in the mean of those that show the same
    points, the square of how many these are. photograph, point: (N,) of each colour."""
    shows = np.zeros((photographs, int(point.max()) + 1), np.float32)
    shows[photograph, point] = 1
    shared = (shows @ shows.T) ** 2
    np.fill_diagonal(shared, 0)
    return shared


def _means(values: np.ndarray, weights: np.ndarray, of: np.ndarray, count: int) -> np.ndarray:
    """(count, 3) weighted means of (N, 3) values by what they are of; 0 of nothing."""
    whole = np.maximum(np.bincount(of, weights, count), 1e-12)
    return np.stack([np.bincount(of, weights * v, count) / whole for v in values.T], axis=1)


def _size(rest: np.ndarray) -> float:
    return float(np.median(np.abs(rest)))
