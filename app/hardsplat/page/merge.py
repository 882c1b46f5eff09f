"""One splat for a group of splats: of the same mean and covariance, where splats weigh what they
cover (Kerbl et al. 2024, A Hierarchical 3D Gaussian Representation, section 4)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from hardsplat.model.camera import rotation_matrix
from hardsplat.model.gaussians import FIELDS, Gaussians

_FAINT = 1e-30  # what splats cover at least, so that a group always has a mean
_MOST = 64  # splats of a group whose sums float32 holds
_LEAST = 1e-30  # of a group's sum of squares in float32, whose terms may be 1e-38 at least


class Splats(Protocol):
    """Arrays as Gaussians has them, of any strides."""

    @property
    def means(self) -> np.ndarray: ...
    @property
    def quats(self) -> np.ndarray: ...
    @property
    def scales(self) -> np.ndarray: ...
    @property
    def opacities(self) -> np.ndarray: ...
    @property
    def sh(self) -> np.ndarray: ...


class Rows(NamedTuple):
    """Splats for a moment."""

    means: np.ndarray
    quats: np.ndarray
    scales: np.ndarray
    opacities: np.ndarray
    sh: np.ndarray


def fields_of(splats: Splats, which: np.ndarray | slice) -> Rows:
    """The splats at `which`, indices, a mask or a slice."""
    return Rows(*(getattr(splats, name)[which] for name in FIELDS))


def members(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(M, G) places of the splats of G groups that begin and end at `edges` (G + 1,), the first of
    all groups, then the second ones, and so on; which of them are there: the last splat stands for
    those that smaller groups lack."""
    places = edges[:-1] + np.arange(np.diff(edges).max())[:, None]
    return np.minimum(places, edges[1:] - 1), places < edges[1:]


def merged(splats: Splats, starts: np.ndarray) -> Gaussians:
    """One splat for each group, which begin at `starts` (G,), and have about as many splats
    each. Their opacity is that of as much cover on the surface that there is now."""
    places, there = members(np.append(starts, len(splats.means)))
    part = fields_of(splats, places.ravel())
    made = merged_members(part, there)
    return _merged(part, there, np.float64)[0] if made is None else made


def merged_members(part: Splats, there: np.ndarray) -> Gaussians | None:
    """`merged` for splats at the places of `members`. None where numbers are not finite, or
    too large or small for float32, which is summed where groups are small."""
    small = len(there) <= _MOST
    made, sound = _merged(part, there, np.float32 if small else np.float64)
    return made if sound else None


def _merged(part: Splats, there: np.ndarray, dtype: type) -> tuple[Gaussians, bool]:
    """dtype: of the sums. False where they are not finite."""
    count, groups = there.shape
    with np.errstate(all="ignore"):
        roots, factors, sound = _factors(part, there, dtype)
        whole = np.einsum("mg,mg->g", roots, roots).astype(np.float64)
        means = np.einsum("mg,img->ig", roots, factors[:, 3]) / whole
        # from their mean: the first splat may be faint, and far from others that are close together
        factors[:, 3] -= roots * means[:, None].astype(dtype)
        covariance = np.empty((3, 3, groups))
        for i, row in enumerate(factors):  # contractions of NumPy need no memory, and few calls
            products = np.einsum("kmg,jkmg->jg", row, factors[i:])
            covariance[i, i:] = covariance[i:, i] = products / whole
        np.square(roots, out=roots)
        sh = part.sh.reshape(count, groups, -1, 3)
        colors = np.einsum("mg,mgkc->kcg", roots, sh) / whole
        squares, quats = axes_of(covariance)
        opacities = np.clip(whole / np.maximum(_surface(squares), 1e-30), 0, 0.99)
    centres = part.means[:groups] + means.T
    fields = quats.T, np.sqrt(squares).T, opacities, colors.transpose(2, 0, 1)
    sound = sound and bool(np.isfinite(covariance).all() and np.isfinite(colors).all())
    if dtype is np.float32:
        sound = sound and bool((whole * np.einsum("iig->g", covariance)).min() > _LEAST)
    return Gaussians(centres, *fields, check=False), sound


def _factors(part: Splats, there: np.ndarray, dtype: type) -> tuple[np.ndarray, np.ndarray, bool]:
    """Square roots of weights, (M, G), and (3, 4, M, G) half axes of splats and what their means
    are from that of the first of their group, times these roots: sums of products of two rows are
    covariances. False where numbers of rotations have no finite square."""
    shape = there.shape
    # rows of numbers that are next to each other, which is twice as fast as columns
    axes, units = np.empty((3, *shape), dtype), np.empty((4, *shape), dtype)
    axes.reshape(3, -1)[:] = part.scales.T
    units.reshape(4, -1)[:] = part.quats.T
    sides = np.empty_like(axes)
    np.multiply(axes[:2], axes[1:], out=sides[:2])
    np.multiply(axes[2], axes[0], out=sides[2])
    roots = np.einsum("img,img->mg", sides, sides)
    np.sqrt(roots, out=roots)
    roots *= part.opacities.reshape(shape)
    roots += _FAINT
    roots *= there
    np.sqrt(roots, out=roots)
    norms = np.einsum("img,img->mg", units, units)
    sound = bool(np.isfinite(norms.max()))
    np.divide(2, norms, out=norms)
    units *= np.sqrt(norms, out=norms)
    factors = np.empty((3, 4, *shape), dtype)
    turns, offset = factors[:, :3], factors[:, 3]
    # rotation_matrix in place: of unit quaternions times the root of 2
    np.multiply(units[1:, None], units[None, 1:], out=turns)
    diagonal = np.einsum("iimg->img", turns)
    diagonal -= np.einsum("img->mg", diagonal)
    diagonal += 1
    x, y, z = np.multiply(units[:1], units[1:], out=sides)
    for i, j, turn in ((1, 0, z), (0, 2, y), (2, 1, x)):
        turns[i, j] += turn
        turns[j, i] -= turn
    axes *= roots
    turns *= axes
    # means are small next to the first, so that nothing cancels in their squares
    columns = part.means.reshape(*shape, 3).transpose(2, 0, 1)
    np.subtract(columns, columns[:, :1], out=offset, dtype=dtype)
    offset *= roots
    return roots, factors, sound


def axes_of(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(3, N) squared half axes, 0 at least, and (4, N) unit quaternions of symmetric matrices (3,
    3, N) float64: the closed form, which takes a tenth of the time of LAPACK's."""
    middle = np.einsum("iin->n", covariance) / 3
    shape = covariance.copy()
    np.einsum("iin->in", shape)[:] -= middle
    size = np.sqrt(np.einsum("ijn,ijn->n", shape, shape) / 6)
    shape /= np.where(size > 0, size, 1)  # now its eigenvalues are 2 cos of three angles
    half = np.einsum("in,in->n", shape[0], _cofactors(shape)[0]) / 2
    # the one that is the farthest from the others
    value = 2 * np.cos(np.arccos(np.minimum(np.abs(half), 1)) / 3)
    value = np.copysign(value, half)
    rest = shape.copy()
    np.einsum("iin->in", rest)[:] -= value
    # columns are its axis, each times one of its components: the longest is exact
    columns = _cofactors(rest)
    a, b, c = np.einsum("iin->in", columns)
    axis = np.where(a >= np.maximum(b, c), columns[0], np.where(b >= c, columns[1], columns[2]))
    axis[2] += 1e-150  # where all three are 0, any axis will do
    axis *= np.copysign(1 / np.sqrt(np.einsum("in,in->n", axis, axis)), axis[2])
    x, y, z = axis
    # two axes across it, those of the shortest turn that brings the third there
    share = -1 / (1 + z)
    both = x * y * share
    across = np.array([[1 + x * x * share, both, -x], [both, 1 + y * y * share, -y]])
    turned = np.einsum("ijn,ajn->ain", shape, across)
    (p, q), (_, r) = np.einsum("ain,bin->abn", across, turned)
    away = np.hypot((p - r) / 2, q)
    angle = np.arctan2(2 * q, p - r) / 4
    own = np.einsum("in,in->n", axis, np.einsum("ijn,jn->in", shape, axis))
    values = np.array([(p + r) / 2 + away, (p + r) / 2 - away, own])
    cos, sin = np.cos(angle), np.sin(angle)
    real = 1 + z
    quats = np.array([real * cos, x * sin - y * cos, x * cos + y * sin, real * sin])
    quats /= np.sqrt(2 * real)
    return np.maximum(middle + size * values, 0), quats


def _cofactors(m: np.ndarray) -> np.ndarray:
    """(3, 3, N) of matrices (3, 3, N)."""
    one, two = [1, 2, 0], [2, 0, 1]
    a, b = m[one], m[two]
    return a[:, one] * b[:, two] - a[:, two] * b[:, one]


def covariance_diagonals(splats: Splats) -> np.ndarray:
    """(N, 3) float64 variances along the world's axes, squared world units."""
    units = np.ascontiguousarray(splats.quats.T, np.float64)
    units /= np.sqrt(np.einsum("in,in->n", units, units))
    axes = rotation_matrix(*units)
    axes *= splats.scales.T
    return np.einsum("ijn,ijn->in", axes, axes).T


def covers(splats: Splats) -> np.ndarray:
    """(N,) float64, what splats cover, opacity times surface, squared world units; above 0."""
    return splats.opacities * _surface(splats.scales.T.astype(np.float64) ** 2) + _FAINT


def _surface(squares: np.ndarray) -> np.ndarray:
    """(N,) in proportion to the surface of ellipsoids, about, from their squared half axes (3,
    N)."""
    a, b, c = squares
    return np.sqrt(a * b + b * c + c * a)
