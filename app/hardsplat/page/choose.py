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
from hardsplat.model.camera import Camera, quaternions, rotation_matrix
from hardsplat.model.gaussians import Gaussians

_CAMERAS = 16  # that importance is estimated from
_SIGMAS = 3.0  # from its mean to where a splat is no more to be seen
_BLOCK = 1 << 14  # splats that a thread makes temporary arrays for at a time
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

    def splats(self, rows_of: Callable[[np.ndarray], Gaussians]) -> Gaussians:
        """The splats of the page, without those whose numbers are not finite. rows_of: the splats
        of some rows; threads ask for them. Raises UserError where none is left."""

        def whole(at: int) -> Gaussians:
            part = rows_of(self.whole[at : at + _BLOCK])
            good = _good(part)
            return part if good.all() else part[good]

        def others(at: int, end: int) -> Gaussians:
            edges = self.edges[at : end + 1]
            part, starts = rows_of(self.rest[edges[0] : edges[-1]]), edges[:-1] - edges[0]
            good = _good(part)
            if not good.all():
                groups = np.repeat(np.arange(len(starts)), np.diff(edges))[good]
                part, starts = part[good], np.flatnonzero(np.diff(groups, prepend=-1))
            return merged(part, starts) if len(part) else part

        spans, at, last = [], 0, len(self.edges) - 1
        while at < last:
            room = np.searchsorted(self.edges, self.edges[at] + _BLOCK, side="right")
            spans.append((at, at := max(at + 1, int(room) - 1)))
        with ThreadPoolExecutor(THREADS) as pool:  # arrays of this size leave Python to others
            making = [pool.submit(others, *span) for span in spans]
            alone = list(pool.map(whole, range(0, len(self.whole), _BLOCK)))
            found = [part for part in (*alone, *(each.result() for each in making)) if len(part)]
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


def _good(part: Gaussians, min_opacity: float = 0.0) -> np.ndarray:
    """(N,) bool: which splats can be seen."""
    good = visible(part.means, part.scales, part.opacities, min_opacity)
    good &= _finite(part.quats) & _finite(part.sh.reshape(len(part), -1))
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


def merged(gaussians: Gaussians, starts: np.ndarray) -> Gaussians:
    """One splat for each group, which begin at `starts` (G,): of the same mean and covariance,
    where splats weigh what they cover, opacity times surface; the opacity is that of as much cover
    on the surface that there is now (Kerbl et al. 2024, A Hierarchical 3D Gaussian Representation,
    section 4)."""
    n, squares = len(gaussians), gaussians.scales.astype(np.float64) ** 2
    weight = gaussians.opacities * _surface(squares) + 1e-30
    # rows of numbers that are next to each other, which is twice as fast as columns
    table = np.empty((10 + gaussians.sh[0].size, n))
    table[0], offset, covariances = 1, table[1:4], table[4:10]
    # means are small next to it, so that nothing cancels in their squares
    first = np.repeat(gaussians.means[starts], np.diff(starts, append=n), axis=0)
    np.subtract(gaussians.means.T, first.T, out=offset, dtype=np.float64)
    for row, entry, (i, j) in zip(covariances, _covariances(gaussians.quats, squares), _UPPER):
        np.multiply(offset[i], offset[j], out=row)
        row += entry
    table[10:] = gaussians.sh.reshape(n, -1).T
    table *= weight
    sums = np.add.reduceat(table, starts, axis=1).T
    whole, means = sums[:, 0], sums[:, 1:] / sums[:, :1]
    covariance = np.empty((len(starts), 3, 3))
    for column, (i, j) in enumerate(_UPPER, 3):
        covariance[:, i, j] = covariance[:, j, i] = means[:, column] - means[:, i] * means[:, j]
    squares, axes = np.linalg.eigh(covariance)
    axes[np.linalg.det(axes) < 0, :, 0] *= -1
    squares = np.maximum(squares, 0)
    opacities = np.clip(whole / np.maximum(_surface(squares), 1e-30), 0, 0.99)
    centres, sh = gaussians.means[starts] + means[:, :3], means[:, 9:].reshape(len(starts), -1, 3)
    return Gaussians(centres, quaternions(axes), np.sqrt(squares), opacities, sh)


def covers(gaussians: Gaussians) -> np.ndarray:
    """(N,) float64, what splats cover, opacity times surface, squared world units; above 0."""
    return gaussians.opacities * _surface(gaussians.scales.astype(np.float64) ** 2) + 1e-30


def covariance_diagonals(gaussians: Gaussians) -> np.ndarray:
    """(N, 3) float64 variances along the world's axes, squared world units."""
    entries = _covariances(gaussians.quats, gaussians.scales.astype(np.float64) ** 2)
    return np.stack([entries[_UPPER.index((i, i))] for i in range(3)], axis=1)


_UPPER = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))  # of a symmetric matrix


def _covariances(quats: np.ndarray, squares: np.ndarray) -> list[np.ndarray]:
    """The entries _UPPER of the covariances, (N,) each. squares: of the half axes (N, 3)."""
    units = np.ascontiguousarray(quats.T, np.float64)
    units /= np.sqrt((units * units).sum(axis=0))
    axes = rotation_matrix(*units)
    a, b, c = np.ascontiguousarray(squares.T)
    terms = [[axes[i][k] * axes[j][k] for k in range(3)] for i, j in _UPPER]
    return [p * a + q * b + r * c for p, q, r in terms]


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


def _surface(squares: np.ndarray) -> np.ndarray:
    """(N,) in proportion to the surface of ellipsoids, about, from their squared half axes (N,
    3)."""
    a, b, c = squares.T
    return np.sqrt(a * b + b * c + c * a)


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
