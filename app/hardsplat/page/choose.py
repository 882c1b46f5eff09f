"""Which splats a page holds, where it cannot hold all: the most important ones, and the others
merged with their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import THREADS, in_blocks
from hardsplat.model import morton
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.merge import Splats, fields_of, members, merged, merged_members

_CAMERAS = 16  # that importance is estimated from
_SIGMAS = 3.0  # from its mean to where a splat is no more to be seen
_BLOCK = 1 << 14  # splats that a thread makes temporary arrays for at a time
# the same, where the end of a run waits: each call of NumPy needs Python for a moment, for which
# it waits while others have it
_MERGED = 1 << 17
# the same, where arrays are gone through so often that they should stay in the processor's cache
_CACHED = 1 << 13


@dataclass(frozen=True)
class Choice:
    """Which splats of `count` a page shows.

    whole: rows of those that are shown as they are. rest: rows of others, neighbours next to each
    other, which are merged in groups. edges: (G + 1,) where groups begin and the last one ends.
    """

    count: int
    whole: np.ndarray
    rest: np.ndarray
    edges: np.ndarray

    def splats(self, rows_of: Callable[[np.ndarray], Splats]) -> Gaussians:
        """The splats of the page, without those whose numbers are not finite. rows_of: the splats
        of some rows; threads ask for them. Raises UserError where none is left."""

        def whole(at: int) -> Gaussians:
            part = rows_of(self.whole[at : at + _MERGED])
            good = _good(part)
            kept = fields_of(part, slice(None) if good.all() else good)
            return Gaussians(*kept, check=False)

        def others(at: int, end: int) -> Gaussians | None:
            places, there = members(self.edges[at : end + 1])
            part = rows_of(self.rest[places.ravel()])
            if (made := merged_members(part, there)) is not None:
                return made
            # by group, of those whose numbers are finite
            order = np.arange(there.size).reshape(there.shape).T[there.T]
            groups = np.repeat(np.arange(end - at), there.sum(axis=0))
            part = fields_of(part, order)
            good = _good(part)
            starts = np.flatnonzero(np.diff(groups[good], prepend=-1))
            return merged(fields_of(part, good), starts) if len(starts) else None

        spans, at, last = [], 0, len(self.edges) - 1
        while at < last:
            room = np.searchsorted(self.edges, self.edges[at] + _MERGED, side="right")
            spans.append((at, at := max(at + 1, int(room) - 1)))
        with ThreadPoolExecutor(THREADS) as pool:  # arrays of this size leave Python to others
            making = [pool.submit(others, *span) for span in spans]
            alone = list(pool.map(whole, range(0, len(self.whole), _MERGED)))
            parts = *alone, *(each.result() for each in making)
            found = [part for part in parts if part is not None and len(part)]
        if not found:
            raise UserError("no splat is left whose numbers are finite")
        return Gaussians.concatenate(found)


def kept(
    gaussians: Gaussians,
    cameras: Sequence[Camera] = (),
    max_splats: int | None = None,
    min_opacity: float = 0.0,
    sh_degree: int | None = None,
) -> Gaussians:
    """Those that can be seen at all, of opacity `min_opacity` or more, made at most `max_splats`,
    with SH up to `sh_degree`.

    Raises UserError where none is left.
    """
    planes = gaussians.sh.shape[1] if sh_degree is None else (sh_degree + 1) ** 2
    part = replace(gaussians, sh=gaussians.sh[:, :planes], extra={}, check=False)
    good = in_blocks(len(part), _BLOCK, lambda block: _good(part[block], min_opacity))
    rows = np.flatnonzero(np.concatenate(good))
    if not len(rows):
        faint = f"fainter than --min-opacity {min_opacity:g}"
        why = f"all are {faint} or hold numbers that are not finite"
        raise UserError(f"none of {len(part):,} splats is left: {why}")
    if max_splats is None or len(rows) <= max_splats:
        return part[rows]
    return reduced(part, cameras, max_splats, rows)


def _good(part: Splats, min_opacity: float = 0.0) -> np.ndarray:
    """(N,) bool: which splats can be seen."""
    good = visible(part.means, part.scales, part.opacities, min_opacity)
    good &= _finite(part.quats) & _finite(part.sh.reshape(len(part.means), -1))
    return good & (np.abs(part.quats) @ np.ones(4, np.float32) > 0)


def visible(
    means: np.ndarray, scales: np.ndarray, opacities: np.ndarray, min_opacity: float
) -> np.ndarray:
    """(N,) bool: which splats can be seen, as far as these numbers say it."""
    return (opacities >= min_opacity) & _finite(means) & _finite(scales)


def _finite(values: np.ndarray) -> np.ndarray:
    """(N,) bool: in which rows of (N, K) all are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        # what is not finite makes the sum so, in a tenth of the time of a look at each
        return np.isfinite(values @ np.ones(values.shape[1], np.float32))


def reduced(
    gaussians: Gaussians,
    cameras: Sequence[Camera],
    count: int,
    rows: np.ndarray | None = None,
    share: float | None = None,
) -> Gaussians:
    """The splats of `choice`: `count` of `rows` or all, which are more."""
    rows = np.arange(len(gaussians)) if rows is None else rows
    means, scales, opacities = gaussians.means, gaussians.scales, gaussians.opacities
    return choice(means, scales, opacities, cameras, count, rows, share).splats(
        gaussians.__getitem__
    )


def choice(
    means: np.ndarray,
    scales: np.ndarray,
    opacities: np.ndarray,
    cameras: Sequence[Camera],
    count: int,
    rows: np.ndarray,
    share: float | None = None,
) -> Choice:
    """`count` splats for those of `rows` where these are more: the most important ones as they
    are, the others merged in groups along a Morton curve, so that nothing gets holes.

    share: of the count that is kept as it is. By default, the fewer are wanted, the more of them
    are merged ones: shares that were measured to be good on bonsai, see docs/results/page.md.
    """
    n = len(rows)
    if n <= count:
        return Choice(len(means), rows, rows[:0], np.zeros(1, np.int64))
    whole = int((min(0.95, 0.45 + 0.75 * count / n) if share is None else share) * count)
    with np.errstate(over="ignore", invalid="ignore"):  # rows that are left out may hold anything
        weights = importance(means, scales, opacities, cameras)[rows]
    important = np.zeros(n, bool)
    important[np.argpartition(-weights, whole)[:whole]] = True
    rest = rows[~important]
    rest = rest[morton.order(np.take(means, rest, axis=0))]
    edges = np.linspace(0, len(rest), count - whole + 1).astype(np.int64)
    return Choice(len(means), rows[important], rest, edges)


def importance(
    means: np.ndarray, scales: np.ndarray, opacities: np.ndarray, cameras: Sequence[Camera]
) -> np.ndarray:
    """(N,) float32, how much splats add to the images of cameras, estimated without drawing them:
    opacity times the square root of the area in pixels, summed over images.

    The root keeps small splats, which carry detail, beside large ones. What stands in front is left
    out. Without cameras: of the size in world units.
    """
    places = np.linspace(0, len(cameras) - 1, min(len(cameras), _CAMERAS)).astype(int)
    chosen = [cameras[i] for i in np.unique(places)]

    def of(part: slice) -> np.ndarray:
        a, b, c = np.ascontiguousarray(scales[part].T)
        middle = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
        large = np.maximum(np.maximum(a, b), c)
        sizes = np.sqrt(middle * large)
        if not chosen:
            return opacities[part] * sizes
        seen = _sides(np.ascontiguousarray(means[part].T), middle, large, chosen)
        # those that no camera sees come last, the largest first
        return opacities[part] * (1e-9 * sizes + seen.sum(axis=0))

    return np.concatenate([np.empty(0, np.float32), *in_blocks(len(means), _CACHED, of)])


def _sides(
    points: np.ndarray, middle: np.ndarray, large: np.ndarray, cameras: Sequence[Camera]
) -> np.ndarray:
    """(cameras, N) square root of the area of splats in the images of cameras, px; 0 where one does
    not see them. points: (3, N)."""

    sizes = ((c.width / 2, c.height / 2, max(c.width, c.height)) for c in cameras)
    rows = [(c.K[0, 0], c.K[0, 2], c.K[1, 2], *size) for c, size in zip(cameras, sizes)]
    fx, cx, cy, width, height, widest = np.array(rows, np.float32).T[:, :, None]
    poses = np.array([camera.w2c[:3] for camera in cameras], np.float32)
    # in place: new arrays would take a third of the time; a product a camera is so small that the
    # library of linear algebra starts no threads for it, which would wait for one another
    turned = poses[:, :, :3] @ points
    turned += poses[:, :, 3:]
    x, y, z = (turned[:, i] for i in range(3))
    visible = z > 0
    # of a world unit
    px = np.divide(fx, z, out=np.zeros_like(z), where=visible)
    middle, large = middle * px, large * px
    # widest: what a splat across the whole image counts as, however near it is
    reach = np.float32(_SIGMAS) * large
    for at, centre, half in ((x, cx, width), (y, cy, height)):
        at *= px
        at += centre
        at -= half
        visible &= np.abs(at, out=at) < half + reach
    area = np.clip(middle, 0.5, widest, out=middle)
    area *= np.clip(large, 0.5, widest, out=large)
    sides = np.sqrt(area, out=area)
    sides[~visible] = 0
    return sides


def foremost(
    means: np.ndarray,
    scales: np.ndarray,
    opacities: np.ndarray,
    cameras: Sequence[Camera],
    count: int,
) -> np.ndarray:
    """The rows of the `count` most important of more splats, in order. Merging tens of millions of
    others would take minutes."""
    weight = importance(means, scales, opacities, cameras)
    return np.sort(np.argpartition(-weight, count)[:count])
