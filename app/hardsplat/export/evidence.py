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
NEAR = 0.5  # of the depth from which on a photograph shows points: what is nearer hangs before it
UNSEEN = 0.02  # pixels of all photographs together, below which a splat is none of what they show
# T alpha at points behind a splat that says that it floats, and how many times that at it
LEAST, TIMES = 0.25, 2.0


@dataclass(frozen=True)
class Evidence:
    """What is known of each splat, arrays of (N,).

    pixels: the sum of T alpha over all photographs. near: that over photographs that show points
    only far behind it. free, held: T alpha at pixels of points that lie behind it, and at it.
    """

    pixels: np.ndarray
    near: np.ndarray
    free: np.ndarray
    held: np.ndarray

    @property
    def unseen(self) -> np.ndarray:
        """(N,) bool: no photograph shows it."""
        return self.pixels < UNSEEN

    @property
    def floats(self) -> np.ndarray:
        """(N,) bool: it hangs in space that photographs saw to be free, or none shows it."""
        free = self.free > np.maximum(TIMES * self.held, LEAST)
        return self.unseen | free | (self.near > self.pixels / 2)

    @property
    def doubt(self) -> np.ndarray:
        """(N,) 0 to 1: how much speaks against that."""
        against = self.near + self.free
        return np.where(self.unseen, 0, 1 - against / np.maximum(against + self.held, 1e-9))


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
    zeros = np.zeros((n, 1, 3), np.float32)
    grey = replace(gaussians, sh=zeros, extra={}, check=False)
    reach = REACH * gaussians.scales.max(axis=1)
    for view in Bar(views, desc="looking", unit="view", leave=False, disable=quiet):
        camera = view.camera
        renderer.forward(grey, camera, near=near)
        shown = points[seen.get(view.name, np.zeros(0, int))]
        sums = renderer.backward(_weights(camera, shown))["sh"][:, 0] / np.float32(SH_C0)
        pixels, at_points, depths = sums.T
        found.pixels[:] += pixels
        own = gaussians.means @ camera.w2c[2, :3].astype(np.float32) + camera.w2c[2, 3]
        behind = depths * (1 - BEHIND) > (own + reach) * at_points
        found.near[:] += np.where(own + reach < _near(camera, shown), pixels, 0)
        found.free[:] += np.where(behind, at_points, 0)
        found.held[:] += np.where(behind, 0, at_points)
    return found


def _near(camera: Camera, points: np.ndarray) -> float:
    """The depth up to which nothing but floaters is: NEAR of nearly all points' depths; 0 without
    points."""
    _, _, depths = camera.pixels(points)
    return NEAR * float(np.quantile(depths, 0.02)) if len(depths) else 0.0


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
