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
