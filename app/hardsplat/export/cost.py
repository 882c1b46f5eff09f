"""What a file costs that leaves the program: the PSNR of what others draw of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.progress import through
from hardsplat.edit.steps import Edit, Similarity
from hardsplat.gpu.probe import open_device
from hardsplat.io.media.images import over
from hardsplat.io.scenes.masks import kept
from hardsplat.io.scenes.views import load_images
from hardsplat.io.splats import load_splats, open_splats
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.pack import read_page
from hardsplat.raster.renderer import Renderer
from hardsplat.results.edited import edited, scene_of
from hardsplat.results.folder import run_of
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.pictures import BACKGROUNDS
from hardsplat.train import focused_scene, load_intrinsics

log = logging.getLogger("hardsplat")
REPORT = "report.html"  # of a run, with its cameras
MOST_SPLATS = 1 << 23
MOST_VIEWS, FEW_VIEWS = 64, 4  # evenly spaced; few on a processor


@dataclass(frozen=True)
class Cost:
    """psnr: of the written file, dB: of photographs, of which the source has `before`; or, where
    that is None, of what the source shows. views: how many of how many of which views."""

    psnr: float
    before: float | None
    views: str

    @property
    def nothing(self) -> bool:
        """Whether it shows what the source does."""
        return self.before is None and self.psnr > 100

    def __str__(self) -> str:
        if self.before is None:
            likeness = "the same as" if self.nothing else f"{self.psnr:.1f} dB from"
            return f"as any viewer draws it, {likeness} the source in {self.views}"
        change = self.psnr - self.before
        less = f"{abs(change):.2f} dB {'less' if change < 0 else 'more'} than the source"
        less = less if abs(change) >= 0.005 else "the same as the source"
        return f"as any viewer draws it, PSNR {self.psnr:.2f} dB in {self.views}, {less}"


def cost_of(
    file: Path,
    config: TrainConfig,
    written: Callable[[], Gaussians],
    edit: Edit | None = None,
    moved: Similarity | None = None,
    filtered: bool = False,
    quiet: bool = False,
) -> Cost | None:
    """Measures what was written of the splats of a run, read back, without the 2D filter but where
    `filtered` says that the file asks for it.

    file, config: the source, as find_model returns them. written: reads the splats of what was
    written. edit: what was done to the source. moved: its world to that of the file as it is read.

    On held-out photographs; of the source itself from the cameras of the run, where photographs are
    missing or splats were cut away. None for a file that is of no run, and, with a note, where
    nothing here can draw it.
    """
    if config.scene.data_dir is None or not (run_of(file) / SAVED_NAME).is_file():
        return None
    edit, moved = edit or Edit(), moved or Similarity()
    behind = np.asarray(BACKGROUNDS[config.scene.background])
    try:
        if (count := open_splats(file).count) > MOST_SPLATS:
            raise UserError(f"{count:,} splats are more than are read at once")
        with ExitStack() as stack:
            device = open_device(config.run.device)
            stack.callback(device.close)
            most = FEW_VIEWS if device.physical.kind == "CPU" else MOST_VIEWS
            cut = any(step.shape for step in edit.steps)
            seen, photos, words = _views(file, config, most, cut)

            def drawn(
                g: Gaussians, cameras: Sequence[Camera], antialiased: bool, factor: float = 1.0
            ) -> list:
                near, images = factor * config.scene.near_plane, []
                with Renderer(device, "tiled", antialiased=antialiased) as renderer:
                    renderer.keep(g)
                    for camera in through(cameras, "measuring", quiet):
                        image, _ = renderer.forward(g, camera, background=behind, near=near)
                        images.append(np.clip(image, 0, 1))
                return images

            source = load_splats(file)
            source = source[edit.inside(source.means)]
            before = drawn(source, seen, config.raster.antialiased)
            del source
            there = written()
            cameras = [moved.camera(camera) for camera in seen]
            after = drawn(there, cameras, filtered, moved.factor)
    except (UserError, MemoryError) as error:
        log.warning("note: what the file costs in quality is not measured: %s", error)
        return None
    if not photos:
        return Cost(mean(map(psnr, after, before)), None, words)
    masks = [kept(photo) for photo in photos]
    photos = [over(photo, behind) / np.float32(255) for photo in photos]
    now, then = (mean(map(psnr, images, photos, masks)) for images in (after, before))
    return Cost(now, then, words)


def _views(
    file: Path, config: TrainConfig, most: int, cut: bool
) -> tuple[list[Camera], list[np.ndarray], str]:
    """Cameras and photographs of held-out views of the scene of a run, or its training views where
    none is held out, and which they are; those of its report, without photographs, where the scene
    is gone. cut: photographs would show more than the splats. Raises UserError where there are
    none."""
    folder, c = run_of(file), config.scene
    try:
        scene = scene_of(file, c, c.undistort)
        if config.intrinsics.intrinsics_opt:
            scene = focused_scene(scene, load_intrinsics(folder))
    except UserError:
        if not (folder / REPORT).is_file():
            raise
        moved = edited(file)[1]
        cameras = [moved.camera(camera) for camera in read_page(folder / REPORT)[1]]
        chosen = [cameras[i] for i in spread(len(cameras), most)]
        return chosen, [], f"{len(chosen)} of its training views"
    numbers, kind = (scene.test, "held-out") if scene.test else (scene.train, "training")
    views = [scene.views[numbers[i]] for i in spread(len(numbers), most)]
    words = f"{len(views)} of {len(numbers)}" if len(views) < len(numbers) else f"{len(views)}"
    photos = [] if cut else list(load_images(views, progress=False))
    return [view.camera for view in views], photos, f"{words} {kind} views"


def psnr(a: np.ndarray, b: np.ndarray, kept: np.ndarray | None = None) -> float:
    """dB of (H, W, 3) images of 0..1, where `kept`, (H, W) bool."""
    squares = np.square(a - b, dtype=np.float64)
    error = squares.mean() if kept is None else squares[kept].mean()
    return float(-10 * np.log10(max(error, 1e-12)))


def mean(values: Iterable[float]) -> float:
    """That of any numbers."""
    return float(np.mean(list(values)))
