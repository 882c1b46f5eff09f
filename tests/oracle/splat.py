"""One 3D Gaussian to one 2D splat: EWA projection, SH colour, visibility; and the backward of all
of it.

Kerbl et al. 2023, section 4 and appendix A; Zwicker et al. 2002 for the affine approximation J of
the perspective.
"""

from dataclasses import dataclass

import numpy as np

from . import quat
from . import sh as harmonics

ALPHA_MIN = 1 / 255  # a fragment below this is skipped
# px^2 added to the 2D variance: at least about one pixel wide (Inria rasterizer, gsplat eps2d)
DILATION = 0.3
# J is evaluated at most this fraction of the half field of view outside the image (gsplat
# persp_proj)
FOV_MARGIN = 0.3


@dataclass
class Projection:
    """Splats on the image; rows of culled splats hold finite but meaningless numbers.

    mean2d:  (N, 2) pixels.
    cov2d:   (N, 3) px^2, upper triangle (a, b, c) of the dilated 2D covariance.
    conic:   (N, 3) px^-2, upper triangle of its inverse.
    color:   (N, 3) max(SH + 0.5, 0).
    depth:   (N,) camera z, world units.
    slope:   (N, 2) world units per px: how the mean of z given the pixel changes across the image.
    deviation: (N,) world units: the standard deviation of z given the pixel.
    opacity: (N,) 0..1, what is drawn: times the compensation where that is asked for.
    compensation: (N,) 0..1, sqrt(det of the 2D covariance before dilation / after), else 1.
    extent:  (N, 2) px, half size of the bounding box of the ellipse alpha = 1/255.
    visible: (N,) bool: in front of the near plane, opacity > 1/255, that box touches the image.
    """

    mean2d: np.ndarray
    cov2d: np.ndarray
    conic: np.ndarray
    color: np.ndarray
    depth: np.ndarray
    slope: np.ndarray
    deviation: np.ndarray
    opacity: np.ndarray
    compensation: np.ndarray
    extent: np.ndarray
    visible: np.ndarray


def project(
    means, quats, scales, opacities, sh, w2c, K, width, height, sh_degree,
    near=0.01, antialiased=False, lens=None,
) -> Projection:  # fmt: skip
    """means (N, 3), quats (N, 4) wxyz of any length, scales (N, 3) linear, opacities (N,) in 0..1,
    sh (N, K, 3); w2c (4, 4) world to camera, K (3, 3) pixels without skew. A splat with z < near is
    culled. antialiased: the 2D Mip filter, Yu et al. 2024, section 5.2 (gsplat
    rasterize_mode="antialiased"). lens: of tests.oracle.lens, None for a pinhole.
    """
    means, quats, scales, opacities = _float64(means, quats, scales, opacities)
    sh, w2c, K = _float64(sh, w2c, K)
    cam, in_front = _to_camera(means, w2c, near)
    z = cam[:, 2]
    mean2d = cam[:, :2] / z[:, None] * K[[0, 1], [0, 1]] + K[:2, 2]

    # columns: the scaled axes; 3D covariance is M M^T
    M = quat.to_matrix(quats) * scales[:, None, :]
    J, _, _ = _jacobian(cam, K, width, height)
    if lens is not None:
        bent, D = lens(cam[:, :2] / z[:, None])
        mean2d = bent * K[[0, 1], [0, 1]] + K[:2, 2]
        u, o = cam[:, :2] / z[:, None], np.zeros_like(z)
        straight = np.moveaxis(np.array([[1 / z, o, -u[:, 0] / z], [o, 1 / z, -u[:, 1] / z]]), 2, 0)
        J = K[[0, 1], [0, 1]][:, None] * (D @ straight)
    axes = J @ w2c[:3, :3] @ M  # (N, 2, 3): the same axes on the image
    sharp = axes @ axes.transpose(0, 2, 1)
    cov = sharp + DILATION * np.eye(2)
    compensation = np.ones(len(means))
    if antialiased:
        compensation = np.sqrt(np.maximum(np.linalg.det(sharp), 0) / np.linalg.det(cov))
    opacities = opacities * compensation
    a, b, c = cov[:, 0, 0], cov[:, 0, 1], cov[:, 1, 1]
    conic = np.stack([c, -b, a], axis=1) / (a * c - b * b)[:, None]

    # of jointly normal (pixel, z): cov(z, pixel) S^-1, with S the dilated covariance
    along = (w2c[:3, :3] @ M)[:, 2:]
    shared = along @ axes.transpose(0, 2, 1)
    slope = shared @ np.linalg.inv(cov)
    deviation = np.sqrt(
        (along @ along.transpose(0, 2, 1) - slope @ shared.transpose(0, 2, 1))[:, 0, 0]
    )
    slope = slope[:, 0]
    color = np.maximum(_color(means, sh, w2c, sh_degree), 0)

    # opacity exp(-r^2 / 2) = 1/255 at r = sqrt(2 ln(255 opacity)) standard deviations
    opaque = opacities > ALPHA_MIN
    radius = np.sqrt(2 * np.log(np.where(opaque, opacities / ALPHA_MIN, 1)))
    extent = radius[:, None] * np.sqrt(np.stack([a, c], axis=1))
    touches = np.all((mean2d + extent > 0) & (mean2d - extent < [width, height]), axis=1)
    cov2d, visible = np.stack([a, b, c], axis=1), in_front & opaque & touches
    drawn = color, cam[:, 2], slope, deviation, opacities, compensation
    return Projection(mean2d, cov2d, conic, *drawn, extent, visible)


def project_backward(
    means, quats, scales, sh, w2c, K, width, height, sh_degree, visible,
    d_mean2d, d_conic, d_color, d_log_compensation=None,
):  # fmt: skip
    """d_mean2d (N, 2) per pixel, d_conic (N, 3), d_color (N, 3) -> dict of d_means, d_quats,
    d_scales and d_sh under "means" ...

    Rows that are not visible get zero. d_log_compensation: (N,), None where there is none.
    """
    means, quats, scales, sh, w2c, K = _float64(means, quats, scales, sh, w2c, K)
    d_of_2d = d_mean2d, d_conic, d_color
    d_mean2d, d_conic, d_color = (np.where(visible[:, None], d, 0.0) for d in d_of_2d)
    cam, _ = _to_camera(means, w2c, near=None, keep=visible)
    x, y, z = cam.T
    W = w2c[:3, :3]
    fx, fy = K[0, 0], K[1, 1]

    rotation = quat.to_matrix(quats)
    M = rotation * scales[:, None, :]
    J, (u, v), inside = _jacobian(cam, K, width, height)
    axes = J @ W @ M
    sharp = axes @ axes.transpose(0, 2, 1)
    conic = np.linalg.inv(sharp + DILATION * np.eye(2))

    # conic = cov^-1: d_cov = -conic d_conic conic, with full symmetric matrices, so the
    # off-diagonal gradient is shared by two entries
    d_conic_full = _symmetric(d_conic * [1, 0.5, 1])
    d_cov = -conic @ d_conic_full @ conic
    if d_log_compensation is not None:
        # log of it = (log det sharp - log det cov) / 2, and d log det S = S^-1
        through = np.where(visible[:, None, None], sharp, np.eye(2))
        d_log = np.where(visible, d_log_compensation, 0)[:, None, None]
        d_cov += 0.5 * d_log * (np.linalg.inv(through) - conic)
    # cov = axes axes^T + 0.3 I, axes = J W M
    d_axes = 2 * d_cov @ axes
    d_M = (J @ W).transpose(0, 2, 1) @ d_axes
    d_J = d_axes @ M.transpose(0, 2, 1) @ W.T
    d_scales = np.sum(d_M * rotation, axis=1)
    d_quats = quat.to_matrix_backward(quats, d_M * scales[:, None, :])

    # J = [[fx/z, 0, -fx u/z], [0, fy/z, -fy v/z]] with u = clamp(x/z), v = clamp(y/z)
    d_u, d_v = -fx / z * d_J[:, 0, 2], -fy / z * d_J[:, 1, 2]
    d_z = fx * (u * d_J[:, 0, 2] - d_J[:, 0, 0]) + fy * (v * d_J[:, 1, 2] - d_J[:, 1, 1])
    d_z = d_z / z**2
    # x/z feeds the projected mean always, and u only where it is not clamped
    d_x_over_z = fx * d_mean2d[:, 0] + d_u * inside[0]
    d_y_over_z = fy * d_mean2d[:, 1] + d_v * inside[1]
    d_z = d_z - (d_x_over_z * x + d_y_over_z * y) / z**2
    d_means = np.stack([d_x_over_z / z, d_y_over_z / z, d_z], axis=1) @ W

    d_sh, d_means_color = _color_backward(means, sh, w2c, sh_degree, d_color)
    d_means = d_means + d_means_color
    return {"means": d_means, "quats": d_quats, "scales": d_scales, "sh": d_sh}


def _to_camera(means, w2c, near, keep=None):
    """(N, 3) camera coordinates and the mask z >= near; (0, 0, 1) outside it."""
    cam = means @ w2c[:3, :3].T + w2c[:3, 3]
    keep = cam[:, 2] >= near if keep is None else keep
    return np.where(keep[:, None], cam, [0.0, 0.0, 1.0]), keep


def _jacobian(cam, K, width, height):
    """J (N, 2, 3) of the projection at the mean, (u, v) = clamped (x/z, y/z), and where not.
    Limits as in gsplat: the image itself plus 0.3 of the half field of view."""
    x, y, z = cam.T
    clamped, inside = [], []
    for axis, (coordinate, size) in enumerate(((x, width), (y, height))):
        f, center = K[axis, axis], K[axis, 2]
        margin = FOV_MARGIN * 0.5 * size / f
        low, high = -(center / f + margin), (size - center) / f + margin
        clamped.append(np.clip(coordinate / z, low, high))
        inside.append((coordinate / z >= low) & (coordinate / z <= high))
    (u, v), o = clamped, np.zeros_like(z)
    fx, fy = K[0, 0], K[1, 1]
    J = np.array([[fx / z, o, -fx * u / z], [o, fy / z, -fy * v / z]])
    return np.moveaxis(J, 2, 0), (u, v), inside


def _view(means, w2c):
    """(N, 3) unit directions from the camera centre to the means, and (N, 1) distances."""
    view = means + w2c[:3, :3].T @ w2c[:3, 3]
    distance = np.linalg.norm(view, axis=1, keepdims=True)
    return view / distance, distance


def _color(means, sh, w2c, sh_degree):
    """(N, 3) SH + 0.5, before the clamp at 0; bands above sh_degree are not used."""
    dirs, _ = _view(means, w2c)
    Y = harmonics.basis(dirs, sh_degree)
    return np.einsum("nk,nkc->nc", Y, sh[:, : Y.shape[1]]) + 0.5


def _color_backward(means, sh, w2c, sh_degree, d_color):
    """d_color (N, 3) -> d_sh (N, K, 3), and d_means through the normalized view direction."""
    d_color = d_color * (_color(means, sh, w2c, sh_degree) > 0)
    dirs, distance = _view(means, w2c)
    Y, d_Y = harmonics.basis(dirs, sh_degree), harmonics.basis_gradient(dirs, sh_degree)
    used = Y.shape[1]
    d_sh = np.zeros_like(sh)
    d_sh[:, :used] = Y[:, :, None] * d_color[:, None, :]
    d_dirs = np.einsum("nc,nkc,nkx->nx", d_color, sh[:, :used], d_Y)
    d_means = (d_dirs - dirs * np.sum(dirs * d_dirs, axis=1, keepdims=True)) / distance
    return d_sh, d_means


def _symmetric(upper):
    """(N, 3) upper triangle (a, b, c) -> (N, 2, 2)."""
    return upper[:, [0, 1, 1, 2]].reshape(-1, 2, 2)


def _float64(*arrays):
    return [np.asarray(array, np.float64) for array in arrays]
