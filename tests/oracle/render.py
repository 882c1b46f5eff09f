"""Alpha compositing front to back, and its backward (Kerbl et al. 2023, equations 2-3)."""

from dataclasses import dataclass

import numpy as np

from .splat import ALPHA_MIN, Projection, project, project_backward

ALPHA_MAX = 0.99  # keeps 1 - alpha, a divisor of the backward, away from 0
T_MIN = 1e-4  # a pixel with less transmittance is finished
TERMINATIONS = ("after", "before", "none")


@dataclass
class Frame:
    """A rendered view.

    image: (H, W, 3) colour over the background.
    T:     (H, W) transmittance left behind the last splat.
    """

    image: np.ndarray
    T: np.ndarray
    projection: Projection
    antialiased: bool
    inputs: dict
    termination: str

    def backward(self, d_image, d_T=None) -> dict:
        """d_image (H, W, 3), d_T (H, W) -> gradients of a scalar by every input and by the 2D
        splats.

        Keys: means (N, 3), quats (N, 4), scales (N, 3; of the linear scale), opacities (N,; of the
        value in 0..1), sh (N, K, 3), mean2d (N, 2; per pixel), conic (N, 3), color (N, 3).

        Two conventions of the original are kept although they are not the exact derivative: the
        clamp at 0.99 passes gradients on, and a splat that finds T < 1e-4 gets none, even where the
        forward pass blended it.
        """
        p = self.projection
        d_mean2d, d_conic, d_color, d_opacities = splats_backward(
            p, self.image, self.T, d_image, d_T, self.termination
        )
        d_log_compensation = d_opacities * p.opacity if self.antialiased else None
        given = p.visible, d_mean2d, d_conic, d_color, d_log_compensation
        d_inputs = project_backward(*self.inputs.values(), *given)
        d_splats = dict(mean2d=d_mean2d, conic=d_conic, color=d_color)
        return d_inputs | d_splats | {"opacities": d_opacities * p.compensation}


def render(
    means, quats, scales, opacities, sh, w2c, K, width, height, sh_degree,
    background=(0, 0, 0), near=0.01, termination="after",
    antialiased=False, lens=None,
) -> Frame:  # fmt: skip
    """Splats (see `project`) over background (3,).

    termination: "none"   every splat is blended (fixed-function blending);
                 "after"  a splat is skipped at a pixel where T < 1e-4 before it;
                 "before" a pixel stops before the splat that would bring T to 1e-4 or below (Inria,
                     gsplat).
    antialiased: see `project`. lens: of tests.oracle.lens; then there is no backward.
    """
    if termination not in TERMINATIONS:
        raise ValueError(f"termination is {termination!r}, expected one of {TERMINATIONS}")
    inputs = dict(means=means, quats=quats, scales=scales, sh=sh, w2c=w2c, K=K)  # in this order
    inputs |= dict(width=width, height=height, sh_degree=sh_degree)
    how = dict(near=near, antialiased=antialiased, lens=lens)
    projection = project(**inputs, opacities=opacities, **how)
    image, T_final = blended(projection, height, width, background, termination)
    return Frame(image, T_final, projection, antialiased, inputs, termination)


def blended(p, height, width, background, termination):
    """(image (H, W, 3) over a background, T (H, W)) of the splats `p` (a Projection)."""
    image, T_final = np.zeros((height, width, 3)), np.ones((height, width))
    for i, window, _, _, alpha, T in _fragments(p, height, width, termination):
        image[window] += (T * alpha)[..., None] * p.color[i]
        T_final[window] = T * (1 - alpha)
    return image + T_final[..., None] * np.asarray(background, np.float64), T_final


def splats_backward(p, image, T_final, d_image, d_T=None, termination="after"):
    """Of an image with background (H, W, 3) of the splats `p` (a Projection) and its T_final (H,
    W): d_mean2d (N, 2; per pixel), d_conic (N, 3), d_color (N, 3), d_opacities (N,), with the
    conventions of Frame.backward."""
    n = len(p.opacity)
    d_mean2d, d_conic, d_color = (np.zeros((n, width)) for width in (2, 3, 3))
    d_opacities = np.zeros(n)
    d_T = np.zeros_like(T_final) if d_T is None else np.asarray(d_T, np.float64)
    d_image = np.asarray(d_image, np.float64)
    remaining = image.copy()  # colour of this splat and all behind it, background included
    for i, window, (dx, dy), gauss, alpha, T in _fragments(p, *T_final.shape, termination):
        d_pixel, color = d_image[window], p.color[i]
        live = (alpha > 0) & (T >= T_MIN)
        # image = ... + T alpha c + T (1 - alpha) (what is behind), and remaining = both terms
        d_alpha = np.sum(d_pixel * (color * T[..., None] - remaining[window]), axis=-1)
        d_alpha = d_alpha - d_T[window] * T_final[window]
        d_alpha = np.where(live, d_alpha / (1 - alpha), 0)
        remaining[window] -= (T * alpha)[..., None] * color

        d_color[i] = np.sum(d_pixel * np.where(live, T * alpha, 0)[..., None], axis=(0, 1))
        d_opacities[i] = np.sum(d_alpha * gauss)
        # gauss = exp(-0.5 (A dx^2 + 2 B dx dy + C dy^2)), (dx, dy) = pixel - mean
        d, (A, B, C) = d_alpha * p.opacity[i] * gauss, p.conic[i]
        d_mean2d[i] = np.sum(d * (A * dx + B * dy)), np.sum(d * (B * dx + C * dy))
        by_conic = -0.5 * dx * dx, -dx * dy, -0.5 * dy * dy
        d_conic[i] = [np.sum(d * factor) for factor in by_conic]
    return d_mean2d, d_conic, d_color, d_opacities


def _fragments(projection, height, width, termination):
    """The fragments of each visible splat, nearest first (ties by index), over the pixels of its
    bounding box.

    Yields (splat, window, (dx (1, w), dy (h, 1)), gauss, alpha, T) with (h, w) arrays: offsets
    pixel - mean, the Gaussian's value, its alpha (0 where the fragment is skipped), and the
    transmittance in front of it.
    """
    T, finished = np.ones((height, width)), np.zeros((height, width), bool)
    visible = np.flatnonzero(projection.visible)
    for i in visible[np.argsort(projection.depth[visible], kind="stable")]:
        mean, extent = projection.mean2d[i], projection.extent[i]
        left, top = np.maximum(np.ceil(mean - extent - 0.5), 0).astype(int)
        right, bottom = np.minimum(np.floor(mean + extent - 0.5) + 1, [width, height]).astype(int)
        if left >= right or top >= bottom:
            continue  # between two pixel centres
        window = slice(top, bottom), slice(left, right)
        dx = np.arange(left, right)[None, :] + 0.5 - mean[0]
        dy = np.arange(top, bottom)[:, None] + 0.5 - mean[1]
        A, B, C = projection.conic[i]
        gauss = np.exp(-0.5 * (A * dx * dx + C * dy * dy) - B * dx * dy)
        alpha = np.minimum(projection.opacity[i] * gauss, ALPHA_MAX)
        blended = alpha >= ALPHA_MIN
        T_here = T[window].copy()
        if termination == "after":
            blended &= T_here >= T_MIN
        elif termination == "before":
            finished[window] |= blended & (T_here * (1 - alpha) <= T_MIN)
            blended &= ~finished[window]
        alpha = np.where(blended, alpha, 0)
        T[window] *= 1 - alpha
        yield i, window, (dx, dy), gauss, alpha, T_here
