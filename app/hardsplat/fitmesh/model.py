"""A textured triangle mesh on the host: the sphere that a fit begins with, neighbours,
subdivision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags, vstack

from hardsplat.base.errors import UserError


@dataclass(frozen=True)
class Mesh:
    """A mesh whose places in the texture have own indices: a seam of the texture is none of the
    surface.

    vertices: (V, 3) float32, world units. faces: (F, 3) int32 into vertices, V of them used.
    uvs: (U, 2) float32 in 0..1. The v axis points down: row v * height of the texture.
    uv_faces: (F, 3) int32 into uvs.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray
    uv_faces: np.ndarray

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Compressed rows: (V + 1,) where each vertex's neighbours begin, and (2 E,) the
        neighbours."""
        graph = _adjacency(sides_of(self.faces)[0], len(self.vertices))
        return graph.indptr, graph.indices

    def subdivided(self, smooth: bool) -> tuple[Mesh, csr_matrix]:
        """Every face in four; and the matrix (V', V) that takes anything else of the vertices
        along, by midpoints.

        smooth: vertices go where Loop's scheme has them (Loop 1987). The mesh is closed.
        """
        edges, sides = sides_of(self.faces)
        old, count = len(self.vertices), len(self.vertices) + len(edges)
        to = np.concatenate([np.arange(old), np.repeat(np.arange(old, count), 2)])
        source = np.concatenate([np.arange(old), edges.ravel()])
        values = np.concatenate([np.ones(old), np.full(2 * len(edges), 0.5)])
        midpoints = csr_matrix((values, (to, source)), (count, old))
        weights = _loop_weights(self.faces, edges, sides, old) if smooth else midpoints
        uv_edges, uv_sides = sides_of(self.uv_faces)
        uvs = np.concatenate([self.uvs, self.uvs[uv_edges].mean(axis=1)])
        return Mesh(
            (weights @ self.vertices.astype(np.float64)).astype(np.float32),
            _in_four(self.faces, sides + old),
            uvs.astype(np.float32),
            _in_four(self.uv_faces, uv_sides + len(self.uvs)),
        ), midpoints


def sides_of(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(E, 2) pairs of vertices, the smaller first, and for every side of a face (F, 3) which edge
    it is: sides 01, 12, 20."""
    sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, which = np.unique(sides, axis=0, return_inverse=True)
    return edges, which.reshape(-1, 3)


def _adjacency(edges, count):
    a, b = edges.T
    ends = np.concatenate([a, b]), np.concatenate([b, a])
    return coo_matrix((np.ones(2 * len(edges)), ends), (count, count)).tocsr()


def _in_four(faces, middles):
    (a, b, c), (ab, bc, ca) = faces.T, middles.T
    four = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1)
    return four.reshape(-1, 3).astype(np.int32)


def _loop_weights(faces, edges, sides, count):
    opposite = faces[:, [2, 0, 1]]  # of sides 01, 12, 20
    shape, rows = (len(edges), count), np.repeat(np.arange(len(edges)), 2)
    far = coo_matrix((np.full(sides.size, 0.125), (sides.ravel(), opposite.ravel())), shape)
    near = coo_matrix((np.full(rows.size, 0.375), (rows, edges.ravel())), shape)
    graph = _adjacency(edges, count)
    n = np.diff(graph.indptr)
    beta = (5 / 8 - (3 / 8 + np.cos(2 * np.pi / n) / 4) ** 2) / n
    kept = diags(1 - n * beta) + diags(beta) @ graph
    return vstack([kept, near.tocsr() + far.tocsr()]).tocsr()


def unwrapped(vertices: np.ndarray, faces: np.ndarray, resolution: int) -> Mesh:
    """The mesh with places in a texture of resolution x resolution texels, two triangles a
    rectangle.

    No texel is among the four around places of two triangles: the halves of a rectangle are two
    texels apart, and half a texel inside it. Raises UserError where a rectangle would be smaller
    than 4 texels.
    """
    cells = -(-len(faces) // 2)
    columns = int(np.ceil(np.sqrt(cells)))
    size = np.array([resolution // columns, resolution // -(-cells // columns)])
    if size.min() < 4:
        room = f"a texture of {resolution}x{resolution} texels"
        remedy = f"raise --texture-size to {4 * columns}"
        raise UserError(f"{len(faces):,} triangles do not fit in {room}: {remedy}")
    inset = 0.55  # of which 0.05 is for the rasterizer's rounding
    half = inset + np.array([[0, 0], [1, 0], [0, 1]]) * (size - 3 - 0.1)
    number = np.arange(len(faces))
    corner = np.stack([number // 2 % columns, number // 2 // columns], axis=1) * size
    halves = np.where((number % 2 == 0)[:, None, None], half, size - half)
    uvs = ((corner[:, None] + halves) / resolution).reshape(-1, 2).astype(np.float32)
    return Mesh(vertices, faces, uvs, np.arange(3 * len(faces), dtype=np.int32).reshape(-1, 3))


def icosphere(levels: int, centre, radius: float, resolution: int) -> Mesh:
    """The first mesh: an icosahedron, unwrapped for a texture of resolution x resolution
    texels, then subdivided `levels` times and pushed out to a sphere."""
    import trimesh

    solid = trimesh.creation.icosahedron()
    vertices, faces = np.asarray(solid.vertices, np.float32), np.asarray(solid.faces, np.int32)
    mesh = unwrapped(vertices, faces, resolution)
    for _ in range(levels):
        mesh, _ = mesh.subdivided(smooth=False)
        lengths = np.linalg.norm(mesh.vertices, axis=1, keepdims=True)
        mesh = replace(mesh, vertices=mesh.vertices / lengths)
    return replace(mesh, vertices=(mesh.vertices * radius + np.asarray(centre)).astype(np.float32))
