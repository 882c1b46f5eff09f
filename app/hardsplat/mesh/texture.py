"""Textures of meshes: charts by xatlas, and the texels that each triangle covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.ndimage import distance_transform_edt

from hardsplat.io.meshes import Textured
from hardsplat.mesh.views import DepthView, colors_at

# triangles that xatlas gets together: its time grows faster than their number
_TOGETHER = 500
_PADDING = 2  # texels between charts
_AT_ONCE = 1 << 22  # texels that are tested together


def unwrapped(points: np.ndarray, faces: np.ndarray, side: int) -> Textured:
    """Charts of all triangles in one square of side x side texels."""
    import xatlas

    atlas, used = xatlas.Atlas(), []
    for piece in _pieces(points[faces].mean(axis=1), np.arange(len(faces))):
        vertices, own = np.unique(faces[piece], return_inverse=True)
        atlas.add_mesh(points[vertices].astype(np.float32), own.reshape(-1, 3).astype(np.uint32))
        used.append(vertices)
    options = xatlas.PackOptions()
    options.padding, options.resolution = _PADDING, side
    atlas.generate(pack_options=options)
    parts, first = [], 0
    for number, vertices in enumerate(used):
        source, own, uvs = atlas[number]
        parts.append((vertices[source], uvs, own.astype(np.int64) + first))
        first += len(source)
    return Textured(*map(np.concatenate, zip(*parts)))


def _pieces(centres: np.ndarray, which: np.ndarray) -> Iterator[np.ndarray]:
    """Halves of halves along the longest side, of _TOGETHER at most."""
    if len(which) <= _TOGETHER:
        yield which
        return
    places = centres[which]
    order = which[np.argsort(places[:, np.ptp(places, axis=0).argmax()], kind="stable")]
    for half in (order[: len(order) // 2], order[len(order) // 2 :]):
        yield from _pieces(centres, half)


def owners(uvs: np.ndarray, faces: np.ndarray, side: int) -> np.ndarray:
    """(side, side) int64, the face that a texel shows, -1 for none: that in which its centre is, or
    else one that it is within a texel of."""
    corners = uvs[faces] * side
    low = np.clip(np.floor(corners.min(axis=1) - 1.5).astype(int), 0, side)
    high = np.clip(np.ceil(corners.max(axis=1) + 1.5).astype(int), 0, side)
    wide, tall = (high - low).T
    found, counts = np.full((2, side * side), -1), wide * tall
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(faces):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _AT_ONCE)))
        face = np.repeat(np.arange(begin, end), counts[begin:end])
        step = np.arange(len(face)) - (ends[face] - counts[face] - before)
        x, y = low[face, 0] + step % wide[face], low[face, 1] + step // wide[face]
        shares, heights = _shares(corners[face], np.stack([x, y], axis=1) + 0.5)
        least = (shares * heights).min(axis=1)  # distance from the nearest side, inward, texels
        for row, margin in ((0, -1.0), (1, 0.0)):
            hit = least >= margin
            found[row, y[hit] * side + x[hit]] = face[hit]
        begin = end
    return np.where(found[1] >= 0, found[1], found[0]).reshape(side, side)


def _shares(corners: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric coordinates (N, 3) of points (N, 2) in triangles (N, 3, 2), and the heights
    (N, 3) of the triangles; both are infinite or NaN in triangles without an area."""
    sides = np.roll(corners, 1, axis=1) - np.roll(corners, -1, axis=1)  # opposite to each corner
    to = at[:, None] - np.roll(corners, -1, axis=1)
    twice = sides[..., 0] * to[..., 1] - sides[..., 1] * to[..., 0]
    area = twice.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return twice / area, np.abs(area) / np.linalg.norm(sides, axis=2)


def baked(
    cut: Textured, points: np.ndarray, side: int, views: Iterable[DepthView], slack: float
) -> np.ndarray:
    """(side, side, 3) float32 in 0..1: colours of the places that texels show, and of the nearest
    such texel elsewhere. slack: as of colors_at."""
    owner = owners(cut.uvs, cut.faces, side)
    row, column = np.nonzero(owner >= 0)
    face = owner[row, column]
    at = np.stack([column, row], axis=1) + 0.5
    shares = np.clip(_shares(cut.uvs[cut.faces[face]] * side, at)[0], 0, 1)
    shares /= shares.sum(axis=1, keepdims=True)
    triangles = points[cut.vertices[cut.faces]]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    places = np.einsum("nk,nkc->nc", shares, triangles[face])
    out = np.zeros((side, side, 3), np.float32)
    out[row, column] = colors_at(places, normals[face], views, slack)
    if not len(row):
        return out
    nearest = distance_transform_edt(owner < 0, return_distances=False, return_indices=True)
    return out[tuple(nearest)]
