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
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer
from hardsplat.results.model import find_model, home_of
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.tables.pictures import BACKGROUNDS

NAME = "clean.ply"
PRICE = 0.02  # dB that photographs may lose
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
) -> Cleaned:
    """Writes the splats of a result folder, or of a file in one, without floaters. The result stays
    as it is.

    output: a file of splats, by default clean.ply next to splats.ply. The most certain floaters are
    removed, as many as cost training photographs at most PRICE. Raises UserError for bad input.
    """
    file, config = find_model(result, data_dir, device)
    if config.scene.data_dir is None:
        raise UserError(f"{file}: nothing says which scene it shows; add --data-dir SCENE")
    path = Path(output) if output else home_of(file) / NAME
    format_to_write(path)
    if path.absolute() == file.absolute():
        raise UserError(f"{path}: would replace what is cleaned; name another file")
    check_free(path, overwrite)
    s = config.scene
    scene = load_scene(scene_folder(s.data_dir), undistort=s.undistort, **s.reading)
    views, measured = (
        [scene.views[scene.train[i]] for i in spread(len(scene.train), most)]
        for most in (MOST_VIEWS, MEASURED)
    )
    points, seen = read_seen(scene_folder(s.data_dir))
    gaussians, sky = load_drawn(file)
    background = np.asarray(BACKGROUNDS[s.background]) if sky is None else sky.colors
    antialiased = config.raster.antialiased
    with Renderer(config.run.device, "tiled", antialiased=antialiased) as renderer:
        how = points, seen, renderer, s.near_plane, quiet
        evidence = gather_evidence(gaussians, views, *how)
        quality = _quality(measured, config, renderer, background)
        order = np.flatnonzero(evidence.floats)
        order = order[np.lexsort((evidence.pixels[order], evidence.doubt[order]))]
        costs = _affordable(
            len(order), lambda n: quality(gaussians[_without(order[:n], len(gaussians))])
        )
    count = max(costs)
    keep = _without(order[:count], len(gaussians))
    everything = load_splats(file)  # with the splats that show the sky
    kept = np.concatenate([keep, np.ones(len(everything) - len(keep), bool)])
    save_splats(path, everything[kept], antialiased)
    unseen = int(evidence.unseen[order[:count]].sum())
    return Cleaned(path, len(gaussians), count, unseen, costs[0], costs[count])


def _without(gone: np.ndarray, n: int) -> np.ndarray:
    """(n,) bool, all but those."""
    keep = np.ones(n, bool)
    keep[gone] = False
    return keep


def _quality(
    views: list[View], config: TrainConfig, renderer: Renderer, background: np.ndarray
) -> Callable[[Gaussians], float]:
    """A function that measures splats: the mean PSNR of photographs, dB."""
    behind, near = BACKGROUNDS[config.scene.background], config.scene.near_plane
    photos = [over(photo, behind) for photo in load_images(views, progress=False)]

    def quality(gaussians: Gaussians) -> float:
        return float(np.mean(list(psnrs(gaussians, views, photos, renderer, near, background))))

    return quality


def _affordable(total: int, quality: Callable[[int], float]) -> dict[int, float]:
    """PSNR without the first splats of `total`, by their number, for 0 and for some more; the last
    is the largest number that costs at most PRICE of the best."""
    found = {0: quality(0)}
    low, high = 0, total
    for _ in range(2):
        counts = np.linspace(low, high, PARTS + 1).round().astype(int)
        found |= {n: quality(n) for n in map(int, counts) if n not in found}
        least = max(found.values()) - PRICE
        low = max(n for n, psnr in found.items() if psnr >= least)
        high = min((n for n in found if n > low), default=low)
    return {n: found[n] for n in sorted(found) if n <= low}
