"""Real spherical harmonics up to degree 3, in the order and with the signs of 3DGS (Condon-Shortley
phase kept, m from -l to l).

Constants are written as their closed forms (Sloan, "Efficient Spherical Harmonic Evaluation", JCGT
2013, appendix).
"""

import numpy as np

pi = np.pi


def basis(dirs, degree):
    """Unit directions (N, 3) -> (N, (degree + 1)^2)."""
    x, y, z = dirs.T
    xx, yy, zz = x * x, y * y, z * z
    bands = [np.full_like(x, np.sqrt(1 / (4 * pi)))]
    if degree >= 1:
        c = np.sqrt(3 / (4 * pi))
        bands += [-c * y, c * z, -c * x]
    if degree >= 2:
        c = np.sqrt(15 / (4 * pi))
        bands += [c * x * y, -c * y * z, np.sqrt(5 / (16 * pi)) * (2 * zz - xx - yy)]
        bands += [-c * x * z, c / 2 * (xx - yy)]
    if degree >= 3:
        c1, c2, c3 = np.sqrt(35 / (32 * pi)), np.sqrt(105 / (4 * pi)), np.sqrt(21 / (32 * pi))
        bands += [
            -c1 * y * (3 * xx - yy),
            c2 * x * y * z,
            -c3 * y * (4 * zz - xx - yy),
            np.sqrt(7 / (16 * pi)) * z * (2 * zz - 3 * xx - 3 * yy),
            -c3 * x * (4 * zz - xx - yy),
            c2 / 2 * z * (xx - yy),
            -c1 * x * (xx - 3 * yy),
        ]
    return np.stack(bands, axis=1)


def basis_gradient(dirs, degree):
    """d basis / d (x, y, z) of the polynomials in `basis`: (N, 3) -> (N, (degree + 1)^2, 3)."""
    x, y, z = dirs.T
    xx, yy, zz, o = x * x, y * y, z * z, np.zeros_like(x)
    bands = [[o, o, o]]
    if degree >= 1:
        c = np.sqrt(3 / (4 * pi)) + o
        bands += [[o, -c, o], [o, o, c], [-c, o, o]]
    if degree >= 2:
        c, c0 = np.sqrt(15 / (4 * pi)), np.sqrt(5 / (16 * pi))
        bands += [
            [c * y, c * x, o],
            [o, -c * z, -c * y],
            [-2 * c0 * x, -2 * c0 * y, 4 * c0 * z],
            [-c * z, o, -c * x],
            [c * x, -c * y, o],
        ]
    if degree >= 3:
        c0, c1, c2, c3 = np.sqrt([7 / (16 * pi), 35 / (32 * pi), 105 / (4 * pi), 21 / (32 * pi)])
        bands += [
            [-6 * c1 * x * y, -3 * c1 * (xx - yy), o],
            [c2 * y * z, c2 * x * z, c2 * x * y],
            [2 * c3 * x * y, -c3 * (4 * zz - xx - 3 * yy), -8 * c3 * y * z],
            [-6 * c0 * x * z, -6 * c0 * y * z, c0 * (6 * zz - 3 * xx - 3 * yy)],
            [-c3 * (4 * zz - 3 * xx - yy), 2 * c3 * x * y, -8 * c3 * x * z],
            [c2 * x * z, -c2 * y * z, c2 / 2 * (xx - yy)],
            [-3 * c1 * (xx - yy), 6 * c1 * x * y, o],
        ]
    return np.stack([np.stack(band, axis=1) for band in bands], axis=1)
