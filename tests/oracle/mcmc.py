"""3DGS as Markov Chain Monte Carlo (Kheradmand et al. 2024): copies, noise, regularizers."""

import math

import numpy as np

from . import quat


def relocated(opacity: float, n: int) -> tuple[float, float]:
    """(opacity, factor of scale) of n splats in the place of one; equation 9, summed exactly."""
    shared = -math.expm1(math.log1p(-opacity) / n)
    terms = (
        math.comb(i - 1, k) * (-1) ** k * shared ** (k + 1) / math.sqrt(k + 1)
        for i in range(1, n + 1)
        for k in range(i)
    )
    return shared, opacity / math.fsum(terms)


def noise(quats, scales, opacities, normals, rate):
    """(N, 3) what the means move by: rate * logistic(-100 (o - 0.005)) * Sigma normal."""
    axes = quat.to_matrix(quats) * scales[:, None, :]
    covariance = axes @ axes.transpose(0, 2, 1)
    faint = 1 / (1 + np.exp(np.minimum(100 * (opacities - 0.005), 700)))
    return rate * faint[:, None] * np.einsum("nij,nj->ni", covariance, normals)


def regularizers(log_scales, logit_opacities, opacity_reg, scale_reg):
    """opacity_reg * mean opacity + scale_reg * mean scale over splats and axes."""
    faint = opacity_reg * np.mean(1 / (1 + np.exp(-logit_opacities)))
    return faint + scale_reg * np.mean(np.exp(log_scales))
