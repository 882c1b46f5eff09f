"""Training loss and evaluation metrics on (H, W, 3) images in 0..1.

SSIM: Wang et al. 2004, equation 13, with an 11 x 11 Gaussian window of sigma 1.5. The trainer of
3DGS (Inria `utils/loss_utils.py`, fused-ssim "same") pads with zeros. torchmetrics 1.9
`structural_similarity_index_measure(data_range=1)`, whose numbers are published, pads 5 pixels by
reflection about the border pixel's centre, clamps both variances at 0, and averages the whole map.
"""

import numpy as np
from scipy.ndimage import correlate1d

C1, C2 = 0.01**2, 0.03**2  # for data range 1
WINDOW = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
WINDOW /= WINDOW.sum()


def l1(image, target, keep=None):
    """Mean |image - target|, and d_image; sign(0) = 0. keep (H, W): elsewhere both are black."""
    image, target, _ = _kept(image, target, keep)
    difference = image - target
    return np.mean(np.abs(difference)), np.sign(difference) / image.size


def l2(image, target, keep=None):
    """Mean (image - target)^2, and d_image."""
    image, target, _ = _kept(image, target, keep)
    difference = image - target
    return np.mean(difference**2), 2 * difference / image.size


def dssim(image, target, keep=None):
    """1 - mean SSIM, and d_image. SSIM is 1 where nothing is kept."""
    image, target, keep = _kept(image, target, keep)
    mu1, mu2, var1, var2, cov = _moments(image, target, "constant")
    A1, A2, B1, B2, S = _ssim_map(mu1, mu2, var1, var2, cov)
    d_S = np.where(keep, -1 / image.size, 0)
    d_var1 = d_S * -S / B2
    d_cov = d_S * 2 * A1 / (B1 * B2)
    # var1 = blur(x^2) - mu1^2 and cov = blur(x y) - mu1 mu2 also depend on mu1
    d_mu1 = d_S * (2 * mu2 * A2 / (B1 * B2) - 2 * mu1 * S / B1) - 2 * mu1 * d_var1 - mu2 * d_cov
    # a symmetric window with zero padding is its own transpose
    d_image = (
        _blur(d_mu1, "constant")
        + 2 * image * _blur(d_var1, "constant")
        + target * _blur(d_cov, "constant")
    )
    return np.mean(np.where(keep, 1 - S, 0)), np.where(keep, d_image, 0)


def edges(image, target, keep=None):
    """Mean |d/dx (image - target)| + |d/dy ...| of neighbours that are both kept, and d_image."""
    image, target, keep = _kept(image, target, keep)
    value, d_image = 0.0, np.zeros_like(image)
    for axis in (0, 1):
        both = np.delete(keep, 0, axis) & np.delete(keep, -1, axis)
        step = np.where(both, np.diff(image - target, axis=axis), 0)
        value += np.sum(np.abs(step)) / image.size
        border = [(int(a == axis),) * 2 for a in range(3)]
        d_image -= np.diff(np.pad(np.sign(step), border), axis=axis) / image.size
    return value, d_image


# Terms of pixels by name: of (image, target, keep), the value and d_image.
TERMS = {"l1": l1, "dssim": dssim, "l2": l2, "edges": edges}


def weighted(weights, image, target, keep=None):
    """The sum of terms with these weights by name, and d_image."""
    found = {name: TERMS[name](image, target, keep) for name in weights}
    return tuple(sum(w * found[name][i] for name, w in weights.items()) for i in (0, 1))


def l1_dssim(image, target, lam=0.2, keep=None):
    """(1 - lam) L1 + lam (1 - mean SSIM), and d_image. Kerbl et al. 2023, equation 7."""
    return weighted({"l1": 1 - lam, "dssim": lam}, image, target, keep)


def psnr(a, b, keep=None):
    """10 log10(1 / mean squared error) in dB, for data range 1, over the pixels of keep (H, W)."""
    a, b, keep = _kept(a, b, keep)
    return 10 * np.log10(1 / np.mean((a - b)[keep[..., 0]] ** 2))


def ssim(a, b, keep=None):
    """Mean SSIM as torchmetrics computes it over the pixels of keep; at least 6 x 6 pixels."""
    a, b, keep = _kept(a, b, keep)
    # scipy's "mirror" is what torch and numpy call "reflect": the border pixel is not repeated
    mu1, mu2, var1, var2, cov = _moments(a, b, "mirror")
    return np.mean(
        _ssim_map(mu1, mu2, np.maximum(var1, 0), np.maximum(var2, 0), cov)[-1][keep[..., 0]]
    )


def _kept(a, b, keep):
    """Both images in float64, black where keep (H, W) is False, and keep as (H, W, 1)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    keep = np.ones(a.shape[:2], bool) if keep is None else np.asarray(keep, bool)
    return np.where(keep[..., None], a, 0), np.where(keep[..., None], b, 0), keep[..., None]


def _moments(a, b, border):
    """Windowed means, variances and covariance, each (H, W, 3)."""
    mu1, mu2 = _blur(a, border), _blur(b, border)
    return (
        mu1,
        mu2,
        _blur(a * a, border) - mu1**2,
        _blur(b * b, border) - mu2**2,
        _blur(a * b, border) - mu1 * mu2,
    )


def _ssim_map(mu1, mu2, var1, var2, cov):
    """The factors A1 A2 / (B1 B2) of SSIM, and SSIM itself."""
    A1, A2 = 2 * mu1 * mu2 + C1, 2 * cov + C2
    B1, B2 = mu1**2 + mu2**2 + C1, var1 + var2 + C2
    return A1, A2, B1, B2, A1 * A2 / (B1 * B2)


def _blur(image, border):
    return correlate1d(correlate1d(image, WINDOW, axis=0, mode=border), WINDOW, axis=1, mode=border)
