"""2D Gaussians of an image fit: front to back by row, gradients of nine parameters, L2 loss."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from .render import blended, splats_backward
from .splat import ALPHA_MIN, DILATION

PARAMETERS = ("means", "log_scales", "angles", "colors", "logit_opacities")


def _axes(log_scales, angles):
    """(N, 2, 2) rotation, and scaled axes as columns: their square + DILATION: covariance."""
    c, s = np.cos(angles), np.sin(angles)
    rotation = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
    return rotation, rotation * np.exp(log_scales)[:, None, :]


@dataclass
class Frame:
    """image (H, W, 3) with the background, T (H, W). splats: what `blended` takes."""

    image: np.ndarray
    T: np.ndarray
    splats: SimpleNamespace
    inputs: dict

    def backward(self, d_image) -> dict:
        """d_image (H, W, 3) -> gradients by every parameter, exact but as in render's."""
        d_mean, d_conic, d_color, d_opacity = splats_backward(
            self.splats, self.image, self.T, d_image
        )
        rotation, axes = _axes(self.inputs["log_scales"], self.inputs["angles"])
        conic = np.linalg.inv(axes @ axes.transpose(0, 2, 1) + DILATION * np.eye(2))
        A, B, C = (d_conic * [1, 0.5, 1]).T
        d_cov = -conic @ np.stack([np.stack([A, B], -1), np.stack([B, C], -1)], -2) @ conic
        d_axes = 2 * d_cov @ axes
        d_scales = np.sum(d_axes * rotation, axis=1)
        turned = np.stack([-axes[:, 1], axes[:, 0]], axis=1)  # d axes / d angle
        opacity = self.splats.opacity
        return {
            "means": d_mean,
            "log_scales": d_scales * np.exp(self.inputs["log_scales"]),
            "angles": np.sum(d_axes * turned, axis=(1, 2)),
            "colors": d_color,
            "logit_opacities": d_opacity * opacity * (1 - opacity),
        }


def draw(
    means, log_scales, angles, colors, logit_opacities, width, height, background=(0, 0, 0)
) -> Frame:
    """means, log_scales (N, 2) px, angles, logit_opacities (N,). T < 1e-4 ends a pixel."""
    given = means, log_scales, angles, colors, logit_opacities
    inputs = {name: np.asarray(v, np.float64) for name, v in zip(PARAMETERS, given)}
    n = len(inputs["means"])
    opacity = 1 / (1 + np.exp(-inputs["logit_opacities"]))
    _, axes = _axes(inputs["log_scales"], inputs["angles"])
    cov = axes @ axes.transpose(0, 2, 1) + DILATION * np.eye(2)
    a, b, c = cov[:, 0, 0], cov[:, 0, 1], cov[:, 1, 1]
    radius = np.sqrt(2 * np.log(np.maximum(opacity / ALPHA_MIN, 1)))
    splats = SimpleNamespace(
        mean2d=inputs["means"],
        conic=np.stack([c, -b, a], 1) / (a * c - b * b)[:, None],
        color=inputs["colors"],
        opacity=opacity,
        depth=np.arange(n),
        extent=radius[:, None] * np.sqrt(np.stack([a, c], 1)),
        visible=opacity > ALPHA_MIN,
    )
    return Frame(*blended(splats, height, width, background, "after"), splats, inputs)


def squared_error(image, photo) -> tuple[float, np.ndarray]:
    """Mean squared difference of two (H, W, 3) images, and its gradient by the first."""
    difference = np.asarray(image, np.float64) - photo
    return float(np.mean(difference**2)), 2 * difference / difference.size
