"""`hardsplat export`: a result as a page that shows it in any browser."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free
from hardsplat.export.cost import cost_of
from hardsplat.io.formats.frames import axis
from hardsplat.io.media.images import to_uint8
from hardsplat.io.splats import load_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.export import MIN_OPACITY, PageScene, WrittenPage, write_page
from hardsplat.page.pack import MOST_SPLATS, read_page
from hardsplat.raster.renderer import Renderer
from hardsplat.results.edited import scene_of
from hardsplat.results.model import find_model, home_of
from hardsplat.settings.scene import SceneSettings
from hardsplat.tables.pictures import BACKGROUNDS

log = logging.getLogger("hardsplat")
NAME = "page.html"
LIGHT = 25e6  # bytes of a page that people are asked to load
# bytes of a page by SH degree, as bonsai and the courtyard have them
_PER_SPLAT = [4 / 3 * packed for packed in (14.0, 18.0, 27.0, 35.0)]
_SIDE = 640  # px, the longer side of the picture that is shown while a page loads


def export(
    result: str | Path,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    max_splats: int | None = None,
    sh_degree: int | None = None,
    min_opacity: float = MIN_OPACITY,
    up: str | None = None,
    title: str | None = None,
    device: str | None = None,
    overwrite: bool = False,
) -> WrittenPage:
    """Writes the splats of a result folder, or of a file, and the training cameras of their scene
    into one HTML file.

    output: default page.html in a result folder, and beside a file its name with .html; one that
    exists stays without `overwrite`. up: world axis that points up, such as "-y"; default that of
    the cameras. device: renders the picture that is shown while the page loads; a machine without
    one writes the page without it. sh_degree: highest degree of colour, by default what
    `light_degree` says. Raises UserError for bad input.
    """
    for flag, value, low, high in (
        ("--max-splats", max_splats, 1, MOST_SPLATS),
        ("--sh-degree", sh_degree, 0, 3),
        ("--min-opacity", min_opacity, 0, 1),
    ):
        if value is not None and not low <= value <= high:
            raise UserError(f"{flag} {value}: expected a number of {low} to {high}")
    file, config = find_model(result, data_dir, device)
    default = home_of(file) / NAME if Path(result).is_dir() else file.with_suffix(".html")
    path = Path(output) if output else default
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path}: a page ends in .html")
    check_free(path, overwrite)
    gaussians, antialiased = load_splats(file), config.raster.antialiased
    shown = scene_of_page(file, config.scene, antialiased, title, up, required=data_dir is not None)
    if shown.cameras:
        shown = replace(shown, picture=_picture(gaussians, shown, config.run.device))
    most = gaussians.sh_degree
    degree = min(most, 3 if sh_degree is None else sh_degree)
    if sh_degree is None:
        degree = light_degree(min(len(gaussians), max_splats or MOST_SPLATS), degree)
    written = write_page(path, gaussians, shown, max_splats, degree, min_opacity)
    each = f"{written.packed / written.splats:.1f} bytes each"
    splats = f"{written.splats:,} of {len(gaussians):,} splats in {each}"
    less = f", colour of SH degree {degree} (--sh-degree {most} keeps all)"
    less = less if sh_degree is None and degree < most else ""
    print(f"{path}: {written.bytes / 1e6:.2f} MB, {splats}, {len(shown.cameras)} cameras{less}")
    del gaussians
    cost = cost_of(file, config, lambda: read_page(path)[0], filtered=antialiased)
    if cost:
        print(f"{path}: {cost}")
    print(f"open it in any browser: {path.absolute().as_uri()}")
    return written


def light_degree(splats: int, sh_degree: int) -> int:
    """The highest SH degree up to `sh_degree` with which a page stays below LIGHT bytes, 1 at least
    where there is as much."""
    light = [d for d in range(sh_degree + 1) if splats * _PER_SPLAT[d] <= LIGHT]
    return max([min(1, sh_degree), *light])


def scene_of_page(
    file: Path,
    settings: SceneSettings,
    antialiased: bool,
    title: str | None,
    up: str | None,
    required: bool,
) -> PageScene:
    """What a page shows of the scene of a file's splats besides them: the cameras that they were
    trained on, by the names of their photographs; none where the scene is gone, unless it is
    required."""
    cameras = {}
    try:
        if settings.data_dir is not None:
            scene = scene_of(file, settings)
            cameras = {scene.views[i].name: scene.views[i].camera for i in scene.train}
    except UserError as error:
        if required:
            raise
        log.warning("note: the page has no cameras to jump to: %s", error)
    name = title or Path(settings.data_dir or file.stem).name
    background, near = BACKGROUNDS[settings.background], settings.near_plane
    return PageScene(name, cameras, near, background, antialiased, axis(up) if up else None)


def _picture(gaussians: Gaussians, shown: PageScene, device: str | None) -> np.ndarray | None:
    """(H, W, 3) uint8, what the first camera sees; None where nothing here can render it."""
    camera = next(iter(shown.cameras.values()))
    scale = _SIDE / max(camera.width, camera.height)
    camera = camera.resized(*(max(1, round(scale * n)) for n in (camera.width, camera.height)))
    try:
        with Renderer(device, "tiled", antialiased=shown.antialiased) as renderer:
            image, _ = renderer.forward(
                gaussians, camera, background=shown.background, near=shown.near
            )
    except UserError as error:
        log.warning("note: the page has no picture to show while it loads: %s", error)
        return None
    return to_uint8(image)
