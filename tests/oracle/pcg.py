"""The hash that all random numbers come from: pcg4d of Jarzynski & Olano 2020."""

import numpy as np


def random_bits(key):
    """(..., 4) uint32 -> the same."""
    v = np.asarray(key, np.uint32) * np.uint32(1664525) + np.uint32(1013904223)
    x, y, z, w = (v[..., i].copy() for i in range(4))
    for mixing in (True, False):
        x += y * w
        y += z * x
        z += x * y
        w += y * z
        if mixing:
            x, y, z, w = (a ^ (a >> np.uint32(16)) for a in (x, y, z, w))
    return np.stack([x, y, z, w], -1)


def bits_of(seed, step, n, draw):
    """(n, 4) uint32 of each of n items in a step. draw: what for."""
    return random_bits(np.stack(np.broadcast_arrays(seed, step, np.arange(n), draw), axis=-1))


def normals(seed, step, n, draw):
    """(n, 3) standard normal numbers (Box & Muller 1958)."""
    u = (bits_of(seed, step, n, draw) >> 8) * 2.0**-24
    r, angle = np.sqrt(-2 * np.log(1 - u[:, :2])), 2 * np.pi * (u[:, 2:] - 0.5)
    x, z = (r * np.cos(angle)).T
    return np.stack([x, r[:, 0] * np.sin(angle[:, 0]), z], axis=1)
