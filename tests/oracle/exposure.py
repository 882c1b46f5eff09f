"""How photographs differ from the rendered image, on (H, W, 3) images, in float64.

affine: Kerbl et al. 2023, exposure compensation of their code: a 3x4 map of colour. ppisp: Deutsch
et al., "PPISP" (arXiv 2601.18336): exposure, vignetting, white balance as a homography of (R, G, R
+ G + B), response. Values end at 0 and 1. Rows of 4 of a camera are red, green, blue and what they
share.
"""

import numpy as np

BLOCKS = {  # xx, xy, yy of the symmetric maps from what is trained to shifts of chromaticity
    "blue": (0.0480542, -0.0043631, 0.0481283),
    "red": (0.0580570, -0.0179872, 0.0431061),
    "green": (0.0433336, -0.0180537, 0.0580500),
    "neutral": (0.0128369, -0.0034654, 0.0128158),
}
TARGETS = {"blue": (0, 0), "red": (1, 0), "green": (0, 1), "neutral": (1 / 3, 1 / 3)}
FAINT = 1e-3  # below it powers are lines


def affine(image, affine, vignette_centre, vignette_falloff):
    """affine (3, 4): added to the identity. vignette_centre (2, 4), vignette_falloff (3, 4)."""
    lit = image * vignetting(image, vignette_centre, vignette_falloff)
    return np.clip(lit + lit @ affine[:, :3].T + affine[:, 3], 0, 1)


def vignetting(image, vignette_centre, vignette_falloff):
    """(H, W, 3): what is left of the light."""
    centre, falloff = (
        np.asarray(rows)[:, :3] + np.asarray(rows)[:, 3:]
        for rows in (vignette_centre, vignette_falloff)
    )
    height, width = image.shape[:2]
    x, y = ((np.arange(n) + 0.5 - n / 2) / max(width, height) for n in (width, height))
    r2 = (x[None, :, None] - centre[0]) ** 2 + (y[:, None, None] - centre[1]) ** 2
    return np.clip(1 + falloff[0] * r2 + falloff[1] * r2**2 + falloff[2] * r2**3, 0, 1)


def homography(numbers):
    """(3, 3) on (R, G, R + G + B), from eight numbers: two for each colour of BLOCKS."""
    t = {}
    for (name, (xx, xy, yy)), pair in zip(BLOCKS.items(), np.reshape(numbers, (4, 2))):
        t[name] = np.append(np.array(TARGETS[name]) + np.array([[xx, xy], [xy, yy]]) @ pair, 1.0)
    T = np.stack([t["blue"], t["red"], t["green"]], axis=1)
    S = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1.0]])
    # the neutral colour is blue + red + green in S, so T lambda must be along its target
    return T @ np.diag(np.linalg.solve(T, t["neutral"])) @ np.linalg.inv(S)


def balanced(image, numbers):
    total = image.sum(-1, keepdims=True)
    moved = np.concatenate([image[..., :2], total], axis=-1) @ homography(numbers).T
    red_green = moved[..., :2] * total / np.where(total > 0, moved[..., 2:], 1)
    return np.concatenate([red_green, total - red_green.sum(-1, keepdims=True)], axis=-1)


def power(x, p):
    return np.where(x > FAINT, np.maximum(x, FAINT) ** p, x * FAINT ** (p - 1))


def responded(image, rows):
    """rows (4, 3): toe, shoulder, gamma, middle of red, green and blue, as trained."""
    softplus = lambda x: np.logaddexp(0, x)
    toe, shoulder = (0.3 + softplus(r + np.log(np.expm1(0.7))) for r in rows[:2])
    gamma, c = 0.1 + softplus(rows[2] + np.log(np.expm1(0.9))), 0.05 + 0.9 / (1 + np.exp(-rows[3]))
    a = shoulder * c / (toe + (shoulder - toe) * c)
    low = a * power(np.minimum(image / c, 1), toe)
    high = 1 - (1 - a) * power(np.minimum((1 - image) / (1 - c), 1), shoulder)
    return power(np.where(image <= c, low, high), gamma)


def ppisp(image, exposure, white_balance, vignette_centre, vignette_falloff, response):
    """exposure (): log2. white_balance, vignette_centre (2, 4), others (3, 4) and (4, 4)."""
    curve = np.asarray(response)[:, :3] + np.asarray(response)[:, 3:]
    lit = (
        image
        * 2.0 ** np.asarray(exposure).item()
        * vignetting(image, vignette_centre, vignette_falloff)
    )
    return responded(np.clip(balanced(lit, white_balance), 0, 1), curve)
