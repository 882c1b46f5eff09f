"""Rotation matrix of an unnormalized quaternion wxyz, and its backward."""

import numpy as np
from scipy.spatial.transform import Rotation


def to_matrix(quats):
    """(N, 4) wxyz of any length > 0 -> (N, 3, 3) rotation of quats / |quats|."""
    return Rotation.from_quat(quats, scalar_first=True).as_matrix()


def to_matrix_backward(quats, d_matrix):
    """d_matrix (N, 3, 3) -> d_quats (N, 4), through the normalization."""
    length = np.linalg.norm(quats, axis=1, keepdims=True)
    unit = quats / length
    w, x, y, z = unit.T
    o = np.zeros_like(w)
    by_component = [
        _matrix([[o, -z, y], [z, o, -x], [-y, x, o]]),
        _matrix([[o, y, z], [y, -2 * x, -w], [z, w, -2 * x]]),
        _matrix([[-2 * y, x, w], [x, o, z], [-w, z, -2 * y]]),
        _matrix([[-2 * z, -w, x], [w, -2 * z, y], [x, y, o]]),
    ]
    d_unit = np.stack([2 * np.einsum("nij,nij->n", d_matrix, m) for m in by_component], axis=1)
    return (d_unit - unit * np.sum(unit * d_unit, axis=1, keepdims=True)) / length


def _matrix(rows):
    """Nested 3 x 3 list of (N,) -> (N, 3, 3)."""
    return np.moveaxis(np.array(rows), 2, 0)
