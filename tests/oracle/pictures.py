"""What can be shown of splats besides their image, by the definitions, every splat blended."""

import numpy as np

from .render import ALPHA_MAX, _fragments
from .splat import ALPHA_MIN, Projection

LINE, TINT = 0.7, 0.1  # alpha of an outline, and of what is inside, as a share of the splat's own


def depth(p: Projection, height, width):
    """(H, W) sum w z / sum w, 0 where no splat is; and sum w."""
    total, weight = np.zeros((height, width)), np.zeros((height, width))
    for i, window, d, _, alpha, T in _fragments(p, height, width, "none"):
        total[window] += T * alpha * depth_at(p, i, d)
        weight[window] += T * alpha
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0), weight


def depth_at(p: Projection, i: int, d, front=0.0):
    """(h, w) z of splat i where rays at d = pixel - mean pass it, so many deviations before it."""
    return p.depth[i] - front * p.deviation[i] + p.slope[i, 0] * d[0] + p.slope[i, 1] * d[1]


def surface(p: Projection, height, width):
    """(H, W) the same as `median`, where exp(-x^2 / 2) = 1/2 along the ray into the splat."""
    return median(p, height, width, np.sqrt(2 * np.log(2)))


def median(p: Projection, height, width, front=0.0):
    """(H, W) z of the last splat before which T > 1/2, 0 where T stays above it."""
    found, left = np.zeros((height, width)), np.ones((height, width))
    for i, window, d, _, alpha, T in _fragments(p, height, width, "none"):
        z = np.where((alpha > 0) & (T > 0.5), depth_at(p, i, d, front), found[window])
        found[window], left[window] = z, T * (1 - alpha)
    return np.where(left <= 0.5, found, 0)


def count(p: Projection, height, width):
    """(H, W) how many splats have an alpha of at least 1/255."""
    out = np.zeros((height, width), int)
    for _, window, _, _, alpha, _ in _fragments(p, height, width, "none"):
        out[window] += alpha > 0
    return out


def outlines(p: Projection, height, width, background):
    """(H, W, 3): a line within a pixel of alpha = 1/255, gone after two."""
    image, T_all = np.zeros((height, width, 3)), np.ones((height, width))
    for i, window, (dx, dy), gauss, alpha, _ in _fragments(p, height, width, "none"):
        own = p.opacity[i] * gauss
        A, B, C = p.conic[i]
        slope = np.hypot(A * dx + B * dy, B * dx + C * dy)
        inside = np.log(np.maximum(own, ALPHA_MIN) / ALPHA_MIN) / np.maximum(slope, 1e-6)
        drawn = np.maximum(LINE * np.clip(2 - inside, 0, 1), np.minimum(TINT * own, ALPHA_MAX))
        drawn = np.where((alpha > 0) & (drawn >= ALPHA_MIN), drawn, 0)
        T = T_all[window].copy()
        image[window] += (T * drawn)[..., None] * p.color[i]
        T_all[window] = T * (1 - drawn)
    return image + T_all[..., None] * np.asarray(background)
