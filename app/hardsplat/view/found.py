"""What windows and browsers show, how it looks and from where: a run, the result of one, splats
from a file, or a scene before its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.edit.editor import Editor
from hardsplat.io.formats import streamed_sog
from hardsplat.io.formats.streamed_sog import StreamedTree
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.model.camera import Camera, intrinsics
from hardsplat.model.framing import scene_bounds
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.hardware.rasterizer import TIMED
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.render.paths import orbit
from hardsplat.render.streaming import sample
from hardsplat.results.edited import scene_of
from hardsplat.results.model import find_model, home_of, near_of
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.pictures import BACKGROUNDS
from hardsplat.train import Running, initial_gaussians
from hardsplat.view.splats.controls import Controls
from hardsplat.view.splats.inputs import Viewpoint
from hardsplat.view.splats.screen import Appearance

FOV = np.radians(50.0)  # vertical, and
# options that a picture of a run has like one of its training
_DRAWN = ("format", "blending", *TIMED)
# points to be looked at: not the fog that training starts from
DOTS: dict[str, Any] = dict(init_opa=0.8, init_scale=0.5)


@dataclass(frozen=True)
class Viewable:
    """What is to be seen. config: with the device and format asked for. scene: None where only
    splats are known. folder: for files that are made of it. tree: of splats that are drawn by what
    cameras see; gaussians then are a sample of them. file: of the splats, None of a scene's points.
    """

    title: str
    gaussians: Gaussians
    config: TrainConfig
    scene: Scene | None
    folder: Path = Path()
    tree: StreamedTree | None = None
    file: Path | None = None

    @property
    def look(self) -> Appearance:
        return look_of(self.config, self.gaussians.sh_degree)

    @property
    def editor(self) -> Editor:
        antialiased = self.config.raster.antialiased
        return Editor(self.gaussians, self.folder, antialiased, self.file)


def find(
    target: str | Path,
    data_dir: str | Path | None = None,
    tree_for: Callable[[Path, TrainConfig], StreamedTree | None] = lambda file, config: None,
    **asked,
) -> Viewable:
    """target: a result folder, a file of splats, or a scene. data_dir: the scene of splats that do
    not say it. tree_for: makes the tree of a file that is not loaded whole. asked: data_factor,
    device and format, where they are to be others.

    Raises UserError for anything else, naming it, and where there are no splats.
    """
    path, asked = Path(target), {name: value for name, value in asked.items() if value is not None}
    if not path.exists():
        what = "give a result folder, a .ply or another file of splats, or a scene"
        raise UserError(f"{path}: not found; {what}")
    scene: Scene | None = None
    of_results = ("splats.ply", SAVED_NAME, "ckpts", streamed_sog.NAME)
    if path.is_dir() and not any((path / name).exists() for name in of_results):
        scene = load_scene(path, asked.get("data_factor", 1))
        config = TrainConfig.of(data_dir=path, sh_degree=0, **DOTS | asked)
        splats = initial_gaussians(config.start, scene, 0, config.run.seed)
        config = config.changed(near_plane=near_of(splats))
        shown = Viewable(scene.name, splats, config, scene)
    else:
        file, config = find_model(path, data_dir)
        config = config.changed(**asked)
        of = config.scene
        if data_dir or (of.data_dir and of.data_dir.is_dir()):
            scene = scene_of(file, of)
        elif of.data_dir:
            how = "--data-dir SCENE shows its cameras and photographs"
            tqdm.write(f"note: {of.data_dir}, the scene of this run, is not there; {how}")
        tree = tree_for(file, config)
        splats = sample(tree) if tree else load_splats(file)
        shown = Viewable(path.name, splats, config, scene, home_of(file), tree, file)
    if not len(shown.gaussians):
        raise UserError(f"{target}: has no splats")
    return shown


def degree_of(run: Running) -> int:
    """The highest SH band that the present step of a run uses."""
    return min(run.session.step // run.config.model.sh_degree_interval, run.config.model.sh_degree)


def look_of(config: TrainConfig, sh_degree: int, rows: Mapping[str, Any] = {}) -> Appearance:
    """How a run's splats are drawn. rows: those that its rasterizer is made of, by option; but for
    images from lists, whose room a window would have to make in the middle of a training."""
    raster, scene = config.raster, config.scene
    own: dict[str, Any] = {"format": raster.hardware.format, "antialiased": raster.antialiased}
    rows = {} if rows.get("blending") == "lists" else rows
    options = HardwareOptions(**own | {name: rows[name] for name in _DRAWN if name in rows})
    return Appearance(options, BACKGROUNDS[scene.background], scene.near_plane, sh_degree)


def starts_of(scene: Scene | None, gaussians: Gaussians | None) -> tuple[Controls, list[Viewpoint]]:
    """Controls at the first camera, and the cameras of all photographs; without a scene controls
    that have most splats in view. Horizons are level to all training cameras together. gaussians:
    what is seen, more or less; None for the points of the scene."""
    if gaussians is None:
        assert scene is not None
        n, ones = len(scene.points), np.ones
        shape = ones((n, 4)), ones((n, 3)), ones(n), np.zeros((n, 1, 3))
        gaussians = Gaussians(scene.points, *shape)
    if scene is None:
        setting = scene_bounds(gaussians)
        pose = orbit(setting, 1, np.tan(FOV / 2))[0]
        start = Camera(pose, intrinsics(FOV, 960, 720), 960, 720)
        return Controls(start, setting.up, setting.centre), []
    held_out = set(scene.test)
    points = [
        Viewpoint(view.name, view.camera, view.load, i in held_out)
        for i, view in enumerate(scene.views)
    ]
    setting = scene_bounds(gaussians, [scene.views[i].camera for i in scene.train])
    return Controls(points[0].camera, setting.up, setting.centre), points
