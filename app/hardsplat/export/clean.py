"""`hardsplat clean`: a result without its floaters.

Floaters are splats that hang in space which photographs saw to be free, or that none of them shows.
They matter little to the photographs, and stand in the way of every other view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free
from hardsplat.export.evidence import gather_evidence, psnrs
from hardsplat.io.formats import format_to_write
from hardsplat.io.media.images import over
from hardsplat.io.scenes.colmap import read_seen
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.scenes.views import View, load_images
from hardsplat.io.sky import load_drawn
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer
from hardsplat.results.model import find_model, home_of
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.train.measure.measure import BACKGROUNDS

NAME = "clean.ply"
PRICE = 0.02  # dB that photographs may lose
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
) -> Cleaned:
    """Writes the splats of a result folder, or of a file in one, without floaters. The result stays
    as it is.

    output: a file of splats, by default clean.ply next to splats.ply. Removes as many floaters as
    cost training photographs at most PRICE, the most certain ones first. Raises UserError for bad
    input.
    """
    file, config = find_model(result, data_dir, device)
    if config.scene.data_dir is None:
        raise UserError(f"{file}: nothing says which scene it shows; add --data-dir SCENE")
    path = Path(output) if output else home_of(file) / NAME
    format_to_write(path)
    if path.absolute() == file.absolute():
        raise UserError(f"{path}: would replace what is cleaned; name another file")
    check_free(path, overwrite or (output is None and path.name == NAME))
    s = config.scene
    scene = load_scene(
        scene_folder(s.data_dir), s.data_factor, s.test_every, s.mask_mode, s.undistort
    )
    chosen = _spread(scene.train, MOST_VIEWS)
    views = [scene.views[i] for i in chosen]
    points, seen = read_seen(scene_folder(s.data_dir))
    gaussians, sky = load_drawn(file)
    background = np.asarray(BACKGROUNDS[s.background]) if sky is None else sky.colors
    antialiased = config.raster.antialiased
    with Renderer(config.run.device, "tiled", antialiased=antialiased) as renderer:
        how = points, seen, renderer, s.near_plane, quiet
        evidence = gather_evidence(gaussians, views, *how)
        measured = [scene.views[i] for i in _spread(scene.train, MEASURED)]
        quality = _quality(measured, config, renderer, background)
        order = np.flatnonzero(evidence.floats)
        order = order[np.lexsort((evidence.pixels[order], evidence.doubt[order]))]
        before = quality(gaussians)
        count, after = _affordable(gaussians, order, quality, before)
    keep = np.ones(len(gaussians), bool)
    keep[order[:count]] = False
    everything = load_splats(file)  # with the splats that show the sky
    rest = np.ones(len(everything) - len(keep), bool)
    save_splats(path, everything[np.concatenate([keep, rest])], antialiased)
    unseen = int(evidence.unseen[order[:count]].sum())
    return Cleaned(path, len(gaussians), count, unseen, before, after)


def _spread(indices, most: int) -> list[int]:
    places = np.unique(np.linspace(0, len(indices) - 1, min(len(indices), most)).round())
    return [indices[int(i)] for i in places]


def _quality(
    views: list[View], config: TrainConfig, renderer: Renderer, background: np.ndarray
) -> Callable[[Gaussians], float]:
    """A function that measures splats: the mean PSNR of photographs, dB."""
    behind, near = BACKGROUNDS[config.scene.background], config.scene.near_plane
    photos = [over(photo, behind) for photo in load_images(views, progress=False)]

    def quality(gaussians: Gaussians) -> float:
        return float(np.mean(list(psnrs(gaussians, views, photos, renderer, near, background))))

    return quality


def _affordable(
    gaussians: Gaussians, order: np.ndarray, quality: Callable[[Gaussians], float], before: float
) -> tuple[int, float]:
    """How many of the splats in `order` may go, and the PSNR without them: the most for PRICE, by
    bisection."""
    low, high, after = 0, len(order), before
    count = high  # all of them are often affordable
    while low < high:
        keep = np.ones(len(gaussians), bool)
        keep[order[:count]] = False
        found = quality(gaussians[keep]) if keep.any() else -np.inf
        if found >= before - PRICE:
            low, after = count, found
        else:
            high = count - 1
        count = (low + high + 1) // 2
        if high - low < max(len(order) // 200, 1):
            break
    return low, after
