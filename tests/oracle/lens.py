"""Lenses as COLMAP documents them; their Jacobian by the complex step (Squire & Trapp 1998)."""

import numpy as np


def perspective(k1, k2, p1, p2, k3, k4, k5, k6):
    """COLMAP's FULL_OPENCV."""

    def bend(u, v):
        s = u * u + v * v
        g = (1 + k1 * s + k2 * s**2 + k3 * s**3) / (1 + k4 * s + k5 * s**2 + k6 * s**3)
        return g * u + 2 * p1 * u * v + p2 * (s + 2 * u * u), g * v + p1 * (
            s + 2 * v * v
        ) + 2 * p2 * u * v

    return _with_jacobian(bend)


def fisheye(k1, k2, k3, k4):
    """COLMAP's OPENCV_FISHEYE."""

    def bend(u, v):
        r = np.sqrt(u * u + v * v)
        angle = np.arctan(r)
        g = angle * (1 + k1 * angle**2 + k2 * angle**4 + k3 * angle**6 + k4 * angle**8) / r
        return g * u, g * v

    return _with_jacobian(bend)


def _with_jacobian(bend):
    def lens(ratio):
        """(N, 2) -> (N, 2) and (N, 2, 2), entry i, j: of coordinate i by coordinate j."""
        u, v = np.asarray(ratio, np.float64).T + 0j
        step = 1e-30
        columns = [np.imag(bend(u + 1j * step, v)) / step, np.imag(bend(u, v + 1j * step)) / step]
        return np.real(bend(u, v)).T, np.moveaxis(np.array(columns), (0, 1, 2), (2, 1, 0))

    return lens
