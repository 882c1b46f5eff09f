"""Stochastic gradients of a view: perturb everything at once by random signs, compare two images
pixel by pixel, gather the difference splat by splat.

Deliot, Heitz & Belcour 2024 (arXiv 2404.09758), after Spall 1992. With signs s and steps c, theta+-
= theta +- c s, and l_p what pixel p has of the loss,

    g_k = s_k / (2 c_k) * sum over the pixels p that splat(k) covers of (l_p(theta+) - l_p(theta-)).

Signs of others average out, so E g_k is the gradient up to O(c^2), as long as a splat's pixels hold
all that its own perturbation changes. Depth order and culling are those of the unperturbed splats.
"""

from dataclasses import replace

import numpy as np

from .loss import l1_dssim
from .pcg import bits_of
from .render import blended
from .splat import ALPHA_MIN, project

FIELDS = ("means", "quats", "log_scales", "logit_opacities", "sh")
DRAW_SIGNS = 64


def signs(seed, step, pair, n, planes):
    """+-1, shaped as parameters are: bit 8 + k mod 24 of word k div 24 for number k of a splat."""
    bits = bits_of(seed, step, n, DRAW_SIGNS + 256 * pair)
    k = np.arange(11 + 3 * planes)
    picked = 1.0 - 2.0 * ((bits[:, k // 24] >> (8 + k % 24).astype(np.uint32)) & np.uint32(1))
    parts = [picked[:, :3], picked[:, 3:7], picked[:, 7:10], picked[:, 10]]
    return dict(zip(FIELDS, [*parts, picked[:, 11:].reshape(n, planes, 3)]))


def drawn(theta):
    """Trained parameters as `project` takes them."""
    opacities = 1 / (1 + np.exp(-np.asarray(theta["logit_opacities"], np.float64)))
    out = {name: theta[name] for name in ("means", "quats", "sh")}
    return out | {"scales": np.exp(theta["log_scales"]), "opacities": opacities}


def steps_of(middle, camera, steps):
    """c by parameter, shaped to broadcast. middle: Projection of the unperturbed splats. Means move
    by a share of the shorter half axis on screen, taken back to their depth (at most of the depth
    itself)."""
    a, b, c = middle.cov2d.T
    shorter = np.sqrt(0.5 * (a + c) - np.hypot(0.5 * (a - c), b))
    focal = 0.5 * (camera["K"][0, 0] + camera["K"][1, 1])
    of_sh = np.full(16, steps["shN"])
    of_sh[0] = steps["sh0"]
    out = {name: steps[name] for name in ("quats", "log_scales", "logit_opacities")}
    means = (steps["means"] * middle.depth * np.minimum(shorter / focal, 1))[:, None]
    return out | {"means": means, "sh": of_sh[None, :, None]}


def perturbed(theta, camera, middle, s, c, sign):
    """Projection of theta + sign c s, in the order and with the culling of the unperturbed."""
    c = c | {"sh": c["sh"][:, : theta["sh"].shape[1]]}
    moved = {name: theta[name] + sign * c[name] * s[name] for name in FIELDS}
    p = project(**drawn(moved), **camera)
    return replace(p, depth=middle.depth, visible=middle.visible & p.visible)


def covers(middle, pair, height, width):
    """(N, H, W) bool: the ellipse, enlarged to hold both perturbed ones' alpha >= 1/255."""
    y, x = np.mgrid[:height, :width] + 0.5
    out = np.zeros((len(middle.depth), height, width), bool)
    for i in np.flatnonzero(middle.visible):
        a, b, c = middle.cov2d[i]
        cov = np.array([[a, b], [b, c]])
        inverse = np.linalg.inv(cov)
        reach = np.sqrt(2 * np.log(middle.opacity[i] / ALPHA_MIN))
        for p in pair:
            if p.visible[i]:
                away = p.mean2d[i] - middle.mean2d[i]
                a, b, c = p.cov2d[i]
                widest = np.linalg.eigvals(inverse @ np.array([[a, b], [b, c]])).real.max()
                own = np.sqrt(2 * np.log(p.opacity[i] / ALPHA_MIN) * widest)
                reach = max(reach, np.sqrt(away @ inverse @ away) + own)
        offset = np.stack([x, y], -1) - middle.mean2d[i]
        square = np.einsum("hwi,ij,hwj->hw", offset, inverse, offset)
        out[i] = square <= (1.0001 * reach) ** 2  # for rounding
    return out


def local_difference(plus, minus, photo, lam):
    """(H, W), adds up to L(plus) - L(minus): L1 as it is; D-SSIM, whose windows reach beyond a
    splat's pixels, by its gradient at `plus`, whose even part in the signs averages out."""
    d_ssim = l1_dssim(plus, photo, 1.0)[1]
    l1 = np.abs(plus - photo) - np.abs(minus - photo)
    return np.sum((1 - lam) / plus.size * l1 + lam * d_ssim * (plus - minus), -1)


def sample(theta, camera, photo, background, lam, steps, s):
    """(gradient estimate by parameter, sums (N,) over each splat's pixels, images +-)."""
    middle = project(**drawn(theta), **camera)
    c = steps_of(middle, camera, steps)
    pair = [perturbed(theta, camera, middle, s, c, sign) for sign in (1, -1)]
    size = camera["height"], camera["width"]
    plus, minus = (blended(p, *size, background, "none")[0] for p in pair)
    difference = local_difference(plus, minus, photo, lam)
    sums = np.einsum("nhw,hw->n", covers(middle, pair, *difference.shape), difference)
    c["sh"] = c["sh"][:, : theta["sh"].shape[1]]
    return estimates_of(sums, s, c), sums, (plus, minus)


def estimates_of(sums, s, c):
    """Gradients from sums (N,) of differences, signs and steps by parameter."""
    return {
        name: sums.reshape(-1, *[1] * (s[name].ndim - 1)) * s[name] / (2 * c[name])
        for name in FIELDS
    }


def flat(gradients):
    return np.concatenate([np.ravel(gradients[name]) for name in FIELDS])
