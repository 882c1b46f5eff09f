"""What photographs say about splats: how much each contributes to them, and whether points that
matching found lie behind it, so that it hangs in space that was seen to be free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardsplat.base.progress import Bar
from hardsplat.io.scenes.views import View
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.raster.renderer import Renderer

# A point lies behind a splat where its depth is more than that of the splat and so many of its
# largest standard deviations by this share; it lies at the splat where it is not.
BEHIND, REACH = 0.1, 2.0
LEAST = 1.0  # pixels that a splat contributes to a photograph that sees it


@dataclass(frozen=True)
class Evidence:
    """What is known of each splat, arrays of (N,).

    pixels: the sum of T alpha over all photographs. views: photographs that it contributes LEAST
    pixels to. free, held: T alpha at pixels of points that lie behind it, and at it.
    """

    pixels: np.ndarray
    views: np.ndarray
    free: np.ndarray
    held: np.ndarray

    @property
    def floats(self) -> np.ndarray:
        """(N,) bool: more points lie behind it than at it, or at most one photograph shows it."""
        return (self.views < 2) | (self.free > np.maximum(self.held, 0.5))


def gather_evidence(
    gaussians: Gaussians,
    views: Sequence[View],
    points: np.ndarray,
    seen: Mapping[str, np.ndarray],
    renderer: Renderer,
    near: float,
    quiet: bool,
) -> Evidence:
    """points: (M, 3) of matching, world units. seen: which of them each photograph shows, by its
    name. near: splats nearer than that are not drawn.

    A photograph takes one draw. The gradient of the image by a splat's colour is T alpha, summed
    over the pixels with the weights of d_image. Its channels are 1, a mask of the points' pixels,
    and their depths.
    """
    n = len(gaussians)
    found = Evidence(*np.zeros((4, n), np.float32))
    grey = replace(gaussians, sh=np.zeros((n, 1, 3), np.float32), check=False)
    reach = REACH * gaussians.scales.max(axis=1)
    for view in Bar(views, desc="looking", unit="view", leave=False, disable=quiet):
        camera = view.camera
        renderer.forward(grey, camera, near=near)
        shown = points[seen.get(view.name, np.zeros(0, int))]
        sums = renderer.backward(_weights(camera, shown))["sh"][:, 0] / np.float32(SH_C0)
        pixels, at_points, depths = sums.T
        found.pixels[:] += pixels
        found.views[:] += pixels >= LEAST
        own = gaussians.means @ camera.w2c[2, :3].astype(np.float32) + camera.w2c[2, 3]
        behind = depths * (1 - BEHIND) > (own + reach) * at_points
        found.free[:] += np.where(behind, at_points, 0)
        found.held[:] += np.where(behind, 0, at_points)
    return found


def _weights(camera: Camera, points: np.ndarray) -> np.ndarray:
    """(H, W, 3) float32: 1, and at pixels of points 1 and the least depth of those."""
    image = np.zeros((camera.height, camera.width, 3), np.float32)
    image[..., 0] = 1
    _, (x, y), depths = camera.pixels(points)
    nearest = np.full((camera.height, camera.width), np.inf)
    np.minimum.at(nearest, (y, x), depths)
    there = np.isfinite(nearest)
    image[there, 1], image[there, 2] = 1, nearest[there]
    return image


def psnrs(
    gaussians: Gaussians,
    views: Sequence[View],
    photos: Sequence[np.ndarray],
    renderer: Renderer,
    near: float,
    background: np.ndarray,
) -> Iterator[float]:
    """dB of each view. photos: (H, W, 3) uint8."""
    for view, photo in zip(views, photos, strict=True):
        image, _ = renderer.forward(gaussians, view.camera, near=near, background=background)
        error = np.mean((np.clip(image, 0, 1) - photo / np.float32(255)) ** 2, dtype=np.float64)
        yield -10 * float(np.log10(max(error, 1e-12)))
