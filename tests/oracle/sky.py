"""A sky on the octahedral map (Engelhardt & Dachsbacher 2008), read bilinearly across edges."""

import numpy as np
from scipy.sparse import csr_matrix


def rays(w2c, K, width, height, lens=None) -> np.ndarray:
    """(H W, 3) directions of pixel centres, world frame. lens: of tests.oracle.lens."""
    y, x = np.mgrid[0:height, 0:width].reshape(2, -1) + 0.5
    wanted = (np.stack([x, y], 1) - K[:2, 2]) / [K[0, 0], K[1, 1]]
    ratio = wanted.copy()
    for _ in range(30 if lens else 0):
        bent, jacobian = lens(ratio)
        ratio -= np.linalg.solve(jacobian, (bent - wanted)[..., None])[..., 0]
    return np.concatenate([ratio, np.ones((len(ratio), 1))], 1) @ np.asarray(w2c)[:3, :3]


def weights(directions, side) -> csr_matrix:
    """(N, side^2): the share of every texel in a direction's colour, border turned around."""
    number = np.arange(side * side).reshape(side, side)
    wide = np.full((side + 2, side + 2), -1)
    wide[1:-1, 1:-1] = number
    wide[0, 1:-1], wide[-1, 1:-1] = number[0, ::-1], number[-1, ::-1]
    wide[1:-1, 0], wide[1:-1, -1] = number[::-1, 0], number[::-1, -1]
    wide[[0, 0, -1, -1], [0, -1, 0, -1]] = number[[-1, -1, 0, 0], [-1, 0, -1, 0]]
    d = directions / np.abs(directions).sum(axis=1, keepdims=True)
    u, v, below = d[:, 0], d[:, 1], d[:, 2] < 0
    sign = lambda a: np.where(a < 0, -1.0, 1.0)
    u, v = (
        np.where(below, (1 - np.abs(v)) * sign(u), u),
        np.where(below, (1 - np.abs(u)) * sign(v), v),
    )
    x, y = (u + 1) / 2 * side + 0.5, (v + 1) / 2 * side + 0.5  # in the wide square
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    f, g = x - i, y - j
    each = [(0, 0, (1 - f) * (1 - g)), (1, 0, f * (1 - g)), (0, 1, (1 - f) * g), (1, 1, f * g)]
    rows, columns, shares = zip(*((np.arange(len(x)), wide[j + b, i + a], w) for a, b, w in each))
    entries = np.concatenate(shares), (np.concatenate(rows), np.concatenate(columns))
    return csr_matrix(entries, shape=(len(x), side * side))
