"""Real spherical harmonics in the order and with the signs of 3DGS."""

from __future__ import annotations

import numpy as np

from hardsplat.model.gaussians import SH_C0


def basis(directions: np.ndarray, sh_degree: int) -> np.ndarray:
    """(..., (sh_degree + 1)^2) all bands at unit directions (..., 3)."""
    rows = directions.reshape(-1, 3)
    degrees = range(1, sh_degree + 1)
    bands = [np.sqrt((2 * degree + 1) / (4 * np.pi)) * band(rows, degree) for degree in degrees]
    constant = np.full((len(rows), 1), SH_C0, directions.dtype)
    found = np.concatenate([constant, *(b.astype(directions.dtype) for b in bands)], axis=1)
    return found.reshape(*directions.shape[:-1], found.shape[1])


def band(directions: np.ndarray, degree: int) -> np.ndarray:
    """(N, 2 l + 1) real spherical harmonics of one band at unit directions (N, 3), in the order and
    with the signs of 3DGS, up to a factor that all of a band share with their norm."""
    x, y, z = directions.T
    xx, yy, zz = x * x, y * y, z * z
    if degree == 1:
        return np.stack([-y, z, -x], axis=1)
    if degree == 2:
        r3 = np.sqrt(3)
        even = (2 * zz - xx - yy) / 2, r3 / 2 * (xx - yy)
        return np.stack([r3 * x * y, -r3 * y * z, even[0], -r3 * x * z, even[1]], axis=1)
    r6, r10, r15 = np.sqrt(6) / 4, np.sqrt(10) / 4, np.sqrt(15)
    functions = (
        -r10 * y * (3 * xx - yy),
        r15 * x * y * z,
        -r6 * y * (4 * zz - xx - yy),
        z * (2 * zz - 3 * xx - 3 * yy) / 2,
        -r6 * x * (4 * zz - xx - yy),
        r15 / 2 * z * (xx - yy),
        -r10 * x * (xx - 3 * yy),
    )
    return np.stack(functions, axis=1)
