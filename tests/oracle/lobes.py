"""Lobes of view-dependent colour: spherical Gaussians exp(|a| (a.n - |a|)) around axes a, of any
length."""

import numpy as np


def color(axes, colors, dirs):
    """axes, colors (K, N, 3), dirs (N, 3) unit -> (N, 3)."""
    return np.einsum("kn,knc->nc", values(axes, dirs), colors)


def values(axes, dirs):
    """(K, N), 1 in the direction of the axis."""
    r = np.linalg.norm(axes, axis=-1)
    return np.exp(r * np.einsum("knx,nx->kn", axes, dirs) - r**2)


def color_backward(axes, colors, dirs, d_color):
    """d_color (N, 3) -> d_axes, d_colors (K, N, 3), d_dirs (N, 3)."""
    r, B = np.linalg.norm(axes, axis=-1)[..., None], values(axes, dirs)[..., None]
    d_log = B * np.einsum("knc,nc->kn", colors, d_color)[..., None]
    cosine = np.einsum("knx,nx->kn", axes, dirs)[..., None] / r
    d_axes = d_log * (r * dirs + (cosine - 2) * axes)
    return d_axes, B * d_color, np.sum(d_log * r * axes, axis=0)
