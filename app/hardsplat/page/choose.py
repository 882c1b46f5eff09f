"""Which splats a page holds, where it cannot hold all: the most important ones, and the others
merged with their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

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


def _good(part: Gaussians, min_opacity: float) -> np.ndarray:
    """(N,) bool: which splats can be seen."""
    good = part.opacities >= min_opacity
    with np.errstate(over="ignore", invalid="ignore"):
        good &= np.abs(part.quats) @ np.ones(4, np.float32) > 0
        for values in (part.means, part.quats, part.scales, part.sh.reshape(len(part), -1)):
            # what is not finite makes the sum so, in a tenth of the time of a look at each
            good &= np.isfinite(values @ np.ones(values.shape[1], np.float32))
    return good


def reduced(
    gaussians: Gaussians,
    cameras: Sequence[Camera],
    count: int,
    rows: np.ndarray | None = None,
    share: float | None = None,
) -> Gaussians:
    """`count` splats for more than that, those of `rows` or all: the most important ones as they
    are, the others merged in groups along a Morton curve, so that nothing gets holes.

    share: of the count that is kept as it is. By default, the fewer are wanted, the more of them
    are merged ones: shares that were measured to be good on bonsai, see docs/results/page.md.
    """
    rows = np.arange(len(gaussians)) if rows is None else rows
    n = len(rows)
    whole = int((min(0.95, 0.45 + 0.75 * count / n) if share is None else share) * count)
    with np.errstate(over="ignore", invalid="ignore"):  # rows that are left out may hold anything
        weights = importance(gaussians.means, gaussians.scales, gaussians.opacities, cameras)[rows]
    important = np.zeros(n, bool)
    important[np.argpartition(-weights, whole)[:whole]] = True
    rest = rows[~important]
    rest = rest[morton.order(np.take(gaussians.means, rest, axis=0))]
    edges = np.linspace(0, len(rest), count - whole + 1).astype(np.int64)  # of groups
    spans, at = [], 0
    while at < count - whole:
        end = max(at + 1, int(np.searchsorted(edges, edges[at] + _BLOCK, side="right")) - 1)
        spans.append((at, end))
        at = end

    def merged_span(span):
        at, end = span
        return merged(gaussians[rest[edges[at] : edges[end]]], edges[at:end] - edges[at])

    with ThreadPoolExecutor(THREADS) as pool:  # arrays of this size leave Python to others
        others = pool.map(merged_span, spans)
        return Gaussians.concatenate([gaussians[rows[important]], *others])


def merged(gaussians: Gaussians, starts: np.ndarray) -> Gaussians:
    """One splat for each group, which begin at `starts` (G,): of the same mean and covariance,
    where splats weigh what they cover, opacity times surface; the opacity is that of as much cover
    on the surface that there is now (Kerbl et al. 2024, A Hierarchical 3D Gaussian Representation,
    section 4)."""
    n, squares = len(gaussians), gaussians.scales.astype(np.float64) ** 2
    weight = gaussians.opacities * _surface(squares) + 1e-30
    # means are small next to it, so that nothing cancels in their squares
    first = np.repeat(gaussians.means[starts].astype(np.float64), np.diff(starts, append=n), axis=0)
    columns = [np.ones(n), *(gaussians.means - first).T]
    columns += [*_covariances(gaussians.quats, squares), *gaussians.sh.reshape(n, -1).T]
    offset = np.stack(columns[1:4])
    for column, (i, j) in enumerate(_UPPER, 4):
        columns[column] = columns[column] + offset[i] * offset[j]
    sums = np.stack([np.add.reduceat(column * weight, starts) for column in columns], axis=1)
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
    w, x, y, z = quats.T.astype(np.float64)
    length = np.sqrt(w * w + x * x + y * y + z * z)
    axes = rotation_matrix(w / length, x / length, y / length, z / length)
    a, b, c = squares.T
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


def foremost(gaussians: Gaussians, cameras: Sequence[Camera], count: int) -> np.ndarray:
    """The rows of the `count` most important splats, or of all where there are fewer, in order.
    Merging tens of millions of others would take minutes."""
    if len(gaussians) <= count:
        return np.arange(len(gaussians))
    weight = importance(gaussians.means, gaussians.scales, gaussians.opacities, cameras)
    return np.sort(np.argpartition(-np.nan_to_num(weight), count)[:count])
