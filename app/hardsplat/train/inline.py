"""What a notebook shows of a result: the page with its splats, and its curves."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.scene import load_scene
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.export import PageScene, write_page
from hardsplat.settings.presets import SAVED_NAME, read_saved
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.measure import BACKGROUNDS

_DEGREE = 1  # of colour in a notebook, which is saved with what it shows


@dataclass(frozen=True)
class InlinePage:
    """A page as the value of a notebook's cell. html: the whole page. height: px."""

    html: str
    height: int

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self.height}" style="border: 0" allow="fullscreen"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'


def inline_page(folder: Path, gaussians: Gaussians, height: int) -> InlinePage:
    """The page of splats, from the training cameras of their run where its scene is there. Raises
    UserError where no splat is left."""
    config = TrainConfig.of(**read_saved(folder / SAVED_NAME))
    scene, cameras = config.scene, _cameras(config)
    look = BACKGROUNDS[scene.background], config.raster.antialiased
    shown = PageScene(folder.name, cameras, scene.near_plane, *look)
    with TemporaryDirectory() as below:
        path = Path(below) / "page.html"
        write_page(path, gaussians, shown, sh_degree=min(gaussians.sh_degree, _DEGREE))
        return InlinePage(path.read_text(), height)


def _cameras(config: TrainConfig) -> dict[str, Camera]:
    if config.scene.data_dir is None:
        return {}
    try:
        scene = load_scene(config.scene.data_dir, **config.scene.reading)
    except UserError:  # it has gone
        return {}
    return {scene.views[i].name: scene.views[i].camera for i in scene.train}
