"""The surface of a distance field as triangles: extraction, pieces, simplification."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import binary_dilation
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from hardsplat.base.errors import UserError
from hardsplat.mesh.field import BLOCK, CORNERS, SOLID, Field, keys_of
from hardsplat.mesh.views import DepthView

_CELL = 4  # blocks a side that are extracted at once
_SIDE = _CELL * BLOCK
LEAST = 0.01  # of the largest piece's area, for a piece to be kept
BEHIND = 0.05  # of the largest piece's vertices, which may be farther from cameras than others are
# the nearest that a value comes to 0, so that no two corners of a triangle coincide
_ZERO = np.float32(1e-3)


def extract(field: Field) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) float64 in world units and faces (F, 3) int64, counter-clockwise seen from
    where distances are positive. A cube of voxels that has one no view has seen has no surface.

    Marching cubes of Lewiner et al. 2003, a cell of blocks after the other; cells share the
    vertices between them.
    """
    from skimage.measure import marching_cubes

    keys, around = keys_of(field.blocks), np.argwhere(np.ones((_CELL + 1,) * 3))
    points, faces, shared, total = [], [], [], 0
    touched = (field.blocks[:, None] - CORNERS).reshape(-1, 3) // _CELL
    for cell in np.unique(touched, axis=0):
        value, known = _dense(field, keys, cell * _CELL + around)
        if value.min() > 0 or value.max() < 0:
            continue
        whole = np.zeros_like(known)
        whole[1:, 1:, 1:] = sliding_window_view(known, (2, 2, 2)).all(axis=(3, 4, 5))
        try:
            found, triangles, _, _ = marching_cubes(value, 0.0, mask=whole, allow_degenerate=True)
        except RuntimeError:  # there is none
            continue
        points.append(found + cell * _SIDE)
        faces.append(triangles.astype(np.int64) + total)
        shared.append(((found == 0) | (found == _SIDE)).any(axis=1))
        total += len(found)
    if not points:
        return np.zeros((0, 3)), np.zeros((0, 3), np.int64)
    return _joined(np.concatenate(points), np.concatenate(faces), np.concatenate(shared), field)


def _dense(field: Field, keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (_SIDE + 1,)*3 of a cell and the voxels behind it, and which are known. keys: of all
    blocks; wanted: ((_CELL + 1)^3, 3) blocks."""
    side = (_CELL + 1) * BLOCK
    at = np.minimum(np.searchsorted(keys, keys_of(wanted)), len(keys) - 1)
    there = keys[at] == keys_of(wanted)
    blocks = np.empty((len(wanted), BLOCK**3), np.float32)
    blocks[:] = field.elsewhere(wanted)[:, None]
    known = blocks != 0
    blocks[there], known[there] = field.value[at[there]], field.known(at[there])
    blocks = np.where(np.abs(blocks) < _ZERO, np.where(blocks < 0, -_ZERO, _ZERO), blocks)
    n = _CELL + 1, _CELL + 1, _CELL + 1, BLOCK, BLOCK, BLOCK
    order, cube, end = (0, 3, 1, 4, 2, 5), (side, side, side), _SIDE + 1
    value, known = (a.reshape(n).transpose(order).reshape(cube) for a in (blocks, known))
    return np.where(known, value, 1)[:end, :end, :end], known[:end, :end, :end]


def _joined(points, faces, shared, field: Field) -> tuple[np.ndarray, np.ndarray]:
    """One vertex where cells have the same; no faces without an area for that."""
    number = np.arange(len(points))
    mine = np.flatnonzero(shared)
    places = np.round(points[mine] * 4096).astype(np.int64)
    _, first, same = np.unique(places, axis=0, return_index=True, return_inverse=True)
    number[mine] = mine[first][same.ravel()]
    faces = number[faces]
    return compacted(points * field.voxel, faces)


def compacted(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same without faces that name a vertex twice, and without vertices that no face has."""
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    used, faces = np.unique(faces, return_inverse=True)
    return points[used], faces.reshape(-1, 3)


def areas(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """(F,) of faces."""
    a, b, c = points[faces.T]
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)


def largest(
    points: np.ndarray,
    faces: np.ndarray,
    pieces: int | None = None,
    places: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """The largest pieces by area, `pieces` of them or those with LEAST of the largest's; and how
    many were left out.

    places: (N, 3) of cameras. Without `pieces`, those others go that are farther from the nearest
    one than all but BEHIND of the largest piece: scraps of what lies behind the scene.
    """
    if not len(faces):
        return points, faces, 0
    edges = np.concatenate([faces[:, :2], faces[:, 1:]])
    ones = np.ones(len(edges), bool)
    graph = coo_array((ones, tuple(edges.T)), shape=(len(points), len(points)))
    count, piece = connected_components(graph, directed=False)
    area = np.bincount(piece[faces[:, 0]], areas(points, faces), minlength=count)
    order = np.argsort(-area, kind="stable")
    kept = order[:pieces] if pieces else order[area[order] >= LEAST * area[order[0]]]
    if places is not None and not pieces and len(kept) > 1:
        some = np.isin(piece, kept)
        away, of = cKDTree(places).query(points[some])[0], piece[some]
        mean = np.bincount(of, away, minlength=count)[kept] / np.bincount(of)[kept]
        far = mean > np.quantile(away[of == order[0]], 1 - BEHIND)
        far[0] = False  # a few vertices of the largest, far behind, can make its mean large
        kept = kept[~far]
    return *compacted(points, faces[np.isin(piece[faces[:, 0]], kept)]), count - len(kept)


def simplified(
    points: np.ndarray, faces: np.ndarray, triangles: int
) -> tuple[np.ndarray, np.ndarray]:
    """At most about so many triangles, by edge collapses of least quadric error (Garland & Heckbert
    1997)."""
    if len(faces) <= triangles:
        return points, faces
    from fast_simplification import simplify

    middle, size = points.mean(axis=0), np.ptp(points, axis=0).max()
    local = ((points - middle) / size).astype(np.float32)
    found, less = simplify(local, faces.astype(np.int32), target_count=triangles)
    return compacted(found * size + middle, less.astype(np.int64))


def open_edges(faces: np.ndarray) -> np.ndarray:
    """(3, F) bool whether the edge behind each corner is one that no other triangle, or more than
    one, passes in the opposite direction; of a closed surface none is."""
    there = np.stack([faces, faces[:, [1, 2, 0]]], axis=-1).transpose(1, 0, 2).reshape(-1, 2)
    count = int(faces.max(initial=0)) + 1
    edges, back = there @ [count, 1], there[:, ::-1] @ [count, 1]
    unique, times = np.unique(edges, return_counts=True)
    at = np.minimum(np.searchsorted(unique, back), len(unique) - 1)
    once = times[np.searchsorted(unique, edges)] == 1
    paired = once & (unique[at] == back) & (times[at] == 1)
    return ~paired.reshape(3, -1)


def is_closed(faces: np.ndarray) -> bool:
    """Whether each edge has two triangles, which pass it in opposite directions."""
    return not open_edges(faces).any()


def mended(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A closed surface of one that lost its form in few places, as collapses of edges do: triangles
    at edges that are not those of exactly two go, and a fan closes each hole."""
    if is_closed(faces):
        return points, faces
    faces = faces[~open_edges(faces).any(axis=0)]
    left = open_edges(faces)
    a, b = faces.T[left], faces[:, [1, 2, 0]].T[left]
    behind: dict[int, list[int]] = {}
    for first, second in zip(a.tolist(), b.tolist()):
        behind.setdefault(first, []).append(second)
    loops: list[list[int]] = []
    for start, further in behind.items():
        while further:
            way = [start]  # a loop ends where it meets itself, so a fan passes each vertex once
            while way:
                way.append(behind[way[-1]].pop())
                if (first := way.index(way[-1])) < len(way) - 1:
                    loops.append(way[first + 1 :])
                    way = way[: first + 1] if first else []
    fans, middles = [faces], [points]
    for i, loop in enumerate(loops):
        ahead, middle = np.roll(loop, -1), np.full(len(loop), len(points) + i)
        fans.append(np.stack([ahead, loop, middle], axis=1))
        middles.append(points[loop].mean(axis=0, keepdims=True))
    return compacted(np.concatenate(middles), np.concatenate(fans))


_MOST = 1 << 27  # blocks of the box around surfaces, a byte each
_AROUND = np.ones((3, 3, 3), bool)


def closed_field(views: Iterable[DepthView], voxel: float, near: np.ndarray) -> Field:
    """Fuses views into a field that says of every place whether it is free or solid. near: (B, 3),
    blocks near what is seen.

    Blocks where free and solid space meet far from what is seen are added to these. Raises
    UserError where voxels are too small for the box around them.
    """
    low, high = near.min(axis=0) - 2, near.max(axis=0) + 3
    shape = high - low
    if np.prod(shape, dtype=float) > _MOST:
        raise UserError(f"--watertight: voxels of {voxel:g} are too small for a box of this size")
    inside, free = np.zeros(shape, bool), np.zeros(shape, bool)
    inside[tuple((near - low).T)] = True
    others = np.argwhere(~inside)
    centres = (others + low + 0.5) * (BLOCK * voxel)
    seen = np.zeros(len(others), bool)
    for view in views:
        left = np.flatnonzero(~seen)
        which, (x, y), z = view.camera.pixels(centres[left])
        depth = view.depth[y, x]
        seen[left[which[(depth == 0) | (z < depth)]]] = True
    free[tuple(others[seen].T)] = True
    for axis in range(3):  # nothing is beyond the box
        np.moveaxis(free, axis, 0)[[0, -1]] = True
    free &= ~inside
    solid = ~free & ~inside
    mixed = binary_dilation(free, _AROUND) & binary_dilation(solid, _AROUND) & ~inside
    field = Field(voxel, np.argwhere(inside | mixed) + low, (low, free))
    field.fuse(views)
    field.value[field.views == 0] = SOLID
    field.views[:] = np.iinfo(np.uint16).max  # all is known
    return field
