"""Which splats a page holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardsplat.camera import Camera
from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians

_CAMERAS = 24  # that importance is estimated from
_SIGMAS = 3.0  # from its mean to where a splat is no more to be seen


def kept(gaussians: Gaussians, cameras: Sequence[Camera] = (), max_splats: int | None = None, min_opacity: float = 0.0, sh_degree: int | None = None) -> Gaussians:
    """Those that can be seen at all, of opacity `min_opacity` or more; of them the `max_splats` most important ones; with SH up to `sh_degree`.

    Raises UserError where none is left.
    """
    planes = gaussians.sh.shape[1] if sh_degree is None else min((sh_degree + 1) ** 2, gaussians.sh.shape[1])
    sh = gaussians.sh[:, :planes]
    numbers = np.concatenate([gaussians.means, gaussians.quats, gaussians.scales, gaussians.opacities[:, None], sh.reshape(len(sh), -1)], axis=1)
    good = np.isfinite(numbers).all(axis=1) & gaussians.quats.any(axis=1) & (gaussians.opacities >= min_opacity)
    chosen = np.flatnonzero(good)
    if not len(chosen):
        raise UserError(f"none of {len(gaussians)} splats is left: all are fainter than --min-opacity {min_opacity:g} or hold numbers that are not finite")
    if max_splats is not None and len(chosen) > max_splats:
        weight = importance(gaussians.means[chosen], gaussians.scales[chosen], gaussians.opacities[chosen], cameras)
        chosen = np.sort(chosen[np.argpartition(-weight, max_splats - 1)[:max_splats]])
    return Gaussians(gaussians.means[chosen], gaussians.quats[chosen], gaussians.scales[chosen], gaussians.opacities[chosen], sh[chosen])


def importance(means: np.ndarray, scales: np.ndarray, opacities: np.ndarray, cameras: Sequence[Camera]) -> np.ndarray:
    """(N,) how much splats add to the images of cameras, estimated without drawing them: opacity times the square root of the area in pixels, summed over images.

    The root keeps small splats, which carry detail, beside large ones. What stands in front of what is left out. Without cameras: of the size in world units.
    """
    _, middle, large = np.sort(scales.astype(np.float64), axis=1).T
    if not cameras:
        return opacities * np.sqrt(middle * large)
    total = np.zeros(len(means))
    for i in np.unique(np.linspace(0, len(cameras) - 1, min(len(cameras), _CAMERAS)).astype(int)):
        camera = cameras[i]
        x, y, z = (means @ camera.w2c[:3, :3].T.astype(np.float32) + camera.w2c[:3, 3].astype(np.float32)).T
        ahead = z > 0
        px = np.divide(camera.K[0, 0], z, out=np.zeros(len(z)), where=ahead)  # of a world unit
        reach = _SIGMAS * large * px
        u, v = x * px + camera.K[0, 2], y * px * (camera.K[1, 1] / camera.K[0, 0]) + camera.K[1, 2]
        seen = ahead & (np.abs(u - camera.width / 2) < camera.width / 2 + reach) & (np.abs(v - camera.height / 2) < camera.height / 2 + reach)
        widest = max(camera.width, camera.height)  # a splat across the whole image counts as that, however near it is
        area = np.minimum(np.hypot(middle * px, 0.5), widest) * np.minimum(np.hypot(large * px, 0.5), widest)
        total += np.where(seen, np.sqrt(area), 0)
    return opacities * (total + 1e-9 * np.sqrt(middle * large))  # those that no camera sees come last, the largest first
