"""`hardsplat clean`: a result without its floaters.

Floaters are splats that hang in space which photographs saw to be free, that none of them shows, or
that hide much of what a camera between two of them would see, and show them little. They stand in
the way of every other view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free
from hardsplat.base.progress import Bar, through
from hardsplat.export.cost import mean, psnr
from hardsplat.io.formats import format_to_write
from hardsplat.io.media.images import over
from hardsplat.io.model import load_model
from hardsplat.io.scenes.colmap import read_seen
from hardsplat.io.scenes.masks import kept
from hardsplat.io.scenes.views import View, load_images
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer
from hardsplat.raster.shares import hiding, small_rasterizer
from hardsplat.results.edited import edited, leave_steps, scene_of, steps_beside
from hardsplat.results.model import find_model, home_of
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.tables.pictures import BACKGROUNDS

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
    hides: how much it hides the view between photographs, see raster/shares.py; it does from 1 on.
    """

    pixels: np.ndarray
    near: np.ndarray
    free: np.ndarray
    held: np.ndarray
    hides: np.ndarray

    @property
    def unseen(self) -> np.ndarray:
        """(N,) bool: no photograph shows it."""
        return self.pixels < UNSEEN

    @property
    def floats(self) -> np.ndarray:
        """(N,) bool: it hangs in space that photographs saw to be free, none shows it, or it hides
        much between them."""
        free = self.free > np.maximum(TIMES * self.held, LEAST)
        return self.unseen | free | (self.near > self.pixels / 2) | self.hiding

    @property
    def hiding(self) -> np.ndarray:
        """(N,) bool: it hides much between photographs, which show it little."""
        return self.hides >= 1

    @property
    def doubt(self) -> np.ndarray:
        """(N,) 0 to 1: how much speaks against that. Those that hide much have at most 0.5, since
        they cost photographs least."""
        against = self.near + self.free
        doubt = 1 - against / np.maximum(against + self.held, 1e-9)
        little = 1 / np.maximum(self.hides, 1)
        return np.where(self.unseen, 0, np.where(self.hiding, little, 1 + doubt) / 2)


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
    found = Evidence(*np.zeros((5, n), np.float32))
    zeros = np.zeros((n, 1, 3), np.float32)
    g = gaussians
    grey = Gaussians(g.means, g.quats, g.scales, g.opacities, zeros, check=False)
    reach = REACH * gaussians.scales.max(axis=1)
    renderer.keep(grey)
    for view in through(views, "looking", quiet):
        camera = view.camera
        renderer.forward(grey, camera, near=near)
        shown = points[seen.get(view.name, np.zeros(0, int))]
        pixels, at_points, depths = renderer.contributions(_weights(camera, shown)).T
        found.pixels[:] += pixels
        own = gaussians.means @ camera.w2c[2, :3].astype(np.float32) + camera.w2c[2, 3]
        behind = depths * (1 - BEHIND) > (own + reach) * at_points
        found.near[:] += np.where(own + reach < _near(camera, shown), pixels, 0)
        found.free[:] += np.where(behind, at_points, 0)
        found.held[:] += np.where(behind, 0, at_points)
    cameras = [view.camera for view in views]
    raster = small_rasterizer(renderer.device, renderer.parameters, cameras[0])
    try:
        found.hides[:] = hiding(raster, n, cameras, near)
    finally:
        raster.destroy()
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


NAME = "clean.ply"
MAX_LOSS = 0.02  # dB that photographs may lose
PARTS = 8  # into which what may go is cut to find how much of it should, twice
MOST_VIEWS, MEASURED = 300, 32  # photographs that are looked at, and measured; evenly spaced


@dataclass(frozen=True)
class Cleaned:
    """read, removed: splats. unseen: of those removed, how many no photograph shows. before, after:
    PSNR of training photographs, dB."""

    path: Path
    read: int
    removed: int
    unseen: int
    before: float
    after: float


def clean(
    result: str | Path,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    max_loss: float = MAX_LOSS,
) -> Cleaned:
    """Writes the splats of a result folder, or of a file in one, without floaters. The result stays
    as it is.

    output: a file of splats, by default clean.ply next to splats.ply. The most certain floaters are
    removed, as many as cost training photographs at most max_loss, dB. Raises UserError for bad
    input.
    """
    if not 0 <= max_loss < math.inf:
        raise UserError(f"--max-loss: expected a number from 0 on, got {max_loss:g}")
    file, config = find_model(result, data_dir, device)
    if config.scene.data_dir is None:
        raise UserError(f"{file}: nothing says which scene it shows; add --data-dir SCENE")
    path = Path(output) if output else home_of(file) / NAME
    format_to_write(path)
    if path.absolute() == file.absolute():
        raise UserError(f"{path}: would replace what is cleaned; name another file")
    for each in (path, steps_beside(path)):
        check_free(each, overwrite)
    s = config.scene
    scene, moved = scene_of(file, s, s.undistort), edited(file)[1]
    views, measured = (
        [scene.views[scene.train[i]] for i in spread(len(scene.train), most)]
        for most in (MOST_VIEWS, MEASURED)
    )
    points, seen = read_seen(scene_folder(s.data_dir), scene.origin)
    points = moved.points(points)
    gaussians = load_model(file)
    antialiased = config.raster.antialiased
    with Renderer(config.run.device, "tiled", antialiased=antialiased) as renderer:
        evidence = gather_evidence(gaussians, views, points, seen, renderer, s.near_plane, quiet)
        quality = _quality(measured, config, renderer)
        order = np.flatnonzero(evidence.floats)
        order = order[np.lexsort((evidence.pixels[order], evidence.doubt[order]))]
        with Bar(total=2 * PARTS, desc="measuring", leave=False, disable=quiet) as bar:

            def without(n: int) -> float:
                bar.update()
                return quality(gaussians[np.delete(np.arange(len(gaussians)), order[:n])])

            costs = _affordable(len(order), without, max_loss)
    count = max(costs)
    everything = load_splats(file)  # with the splats that show the sky, behind the others
    left = np.delete(np.arange(len(everything)), order[:count])
    save_splats(path, everything[left], antialiased)
    leave_steps(path, file)
    unseen = int(evidence.unseen[order[:count]].sum())
    return Cleaned(path, len(gaussians), count, unseen, costs[0], costs[count])


def _quality(
    views: list[View], config: TrainConfig, renderer: Renderer
) -> Callable[[Gaussians], float]:
    """A function that measures splats: the mean PSNR of photographs where masks let them count,
    dB."""
    behind, near = BACKGROUNDS[config.scene.background], config.scene.near_plane
    loaded = load_images(views, progress=False)
    photos = [(over(photo, behind), kept(photo)) for photo in loaded]

    def quality(gaussians: Gaussians) -> float:
        found = []
        renderer.keep(gaussians)
        for view, (photo, counts) in zip(views, photos, strict=True):
            image, _ = renderer.forward(gaussians, view.camera, background=behind, near=near)
            found.append(psnr(np.clip(image, 0, 1), photo / np.float32(255), counts))
        return mean(found)

    return quality


def _affordable(total: int, quality: Callable[[int], float], loss: float) -> dict[int, float]:
    """PSNR without the first splats of `total`, by their number, for 0 and for some more; the last
    is the largest number that costs at most `loss` of the best, dB."""
    found = {0: quality(0)}
    low, high = 0, total
    for _ in range(2):
        counts = np.linspace(low, high, PARTS + 1).round().astype(int)
        found |= {n: quality(n) for n in map(int, counts) if n not in found}
        least = max(found.values()) - loss
        low = max(n for n, psnr in found.items() if psnr >= least)
        high = min((n for n in found if n > low), default=low)
    return {n: found[n] for n in sorted(found) if n <= low}
