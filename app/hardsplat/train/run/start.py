"""What a training begins with: the views of its scene, and the first splats."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background
from hardsplat.base.errors import OutOfMemory
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import is_antialiased, load_splats, open_splats
from hardsplat.model import morton
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.model import find_model
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.train.measure.measure import canvas_of
from hardsplat.train.step.views import Views

if TYPE_CHECKING:
    from hardsplat.train.session.session import Session

_OPACITIES, _LEAST_SCALE = (
    (1e-3, 1 - 1e-3),
    1e-9,
)  # of given splats: formats of 8 bits have opacities of 0 and 1


def say_notes(config: TrainConfig, scene: Scene) -> None:
    """Prints what the user should know of the scene before the training begins."""
    for note in scene.notes:
        tqdm.write(f"note: {note}")
    if config.start.init is None and config.start.init_type == "sfm" and not len(scene.points):
        tqdm.write(
            f"note: {scene.name} has no points: starting from {config.start.init_num_pts} "
            f"random ones within --init-extent {config.start.init_extent:g}"
        )
    if (
        config.start.init is not None
        and not (config.run.resume or config.run.ckpt)
        and is_antialiased(find_model(config.start.init)[0]) != config.raster.antialiased
    ):
        tqdm.write(
            f"note: the splats of {config.start.init} were trained "
            f"{'without' if config.raster.antialiased else 'with'} --antialiased"
        )


def training_cameras(scene: Scene) -> list[Camera]:
    return [scene.views[i].camera for i in scene.train]


def views_of(scene: Scene) -> Views:
    """The views that a scene has for training, for a canvas that holds those held out as well."""
    distorted = any(view.camera.distortion for view in scene.views)
    return Views(
        training_cameras(scene),
        canvas_of(scene),
        scene.extent,
        [scene.views[i].number for i in scene.train],
        distorted=distorted,
    )


def known_depths(config: TrainConfig, scene: Scene) -> list[np.ndarray] | None:
    """What is known of the depth of training views, where the loss wants it."""
    if not config.depth.depth_lambda:
        return None
    from hardsplat.io.scenes.depths import known_disparities

    known, label = known_disparities(scene_folder(config.scene.data_dir), scene, scene.train)
    tqdm.write(f"note: {label} are in the loss")
    return known


def starts_random(config: TrainConfig, scene: Scene) -> bool:
    return config.start.init is None and (
        config.start.init_type == "random" or not len(scene.points)
    )


def initial_gaussians(config: TrainConfig, scene: Scene) -> Gaussians:
    """Splats at the SfM points, random ones in a cube, or those of a file.

    Neighbours are visible together, so they stand together in memory, and those that they grow
    mostly do as well (docs/RESULTS.md has what that saves).
    """
    if config.start.init is not None:
        return _given(config.start.init, config.model.sh_degree)
    rng = np.random.default_rng(config.run.seed)
    if starts_random(config, scene):
        points = rng.uniform(
            -config.start.init_extent, config.start.init_extent, (config.start.init_num_pts, 3)
        )
        colors = rng.integers(0, 256, (config.start.init_num_pts, 3))
    else:
        points, colors = scene.points, scene.colors
    order = morton.order_by_rank(points)
    points, colors = points[order], colors[order]
    gaussians = Gaussians.from_points(points, colors, config.model.sh_degree, config.start.init_opa)
    gaussians.scales = gaussians.scales * np.float32(config.start.init_scale)
    return gaussians


def _given(path: Path, sh_degree: int) -> Gaussians:
    """Splats of a file or a result folder as training takes them: SH bands up to that degree, and
    nothing at the end of its range, where gradients vanish."""
    file, _ = find_model(path)
    given = load_splats(file)
    given = given[morton.order_by_rank(given.means)]
    opacities, scales = (
        np.clip(given.opacities, *_OPACITIES),
        np.maximum(given.scales, _LEAST_SCALE),
    )
    return Gaussians(
        given.means,
        given.quats,
        scales,
        opacities,
        given.sh[:, : (sh_degree + 1) ** 2],
        given.extra,
        check=False,
    )


def _count(config: TrainConfig, scene: Scene) -> int:
    """New splats there will be, at most."""
    if config.start.init is not None:
        return open_splats(find_model(config.start.init)[0]).count
    return config.start.init_num_pts if starts_random(config, scene) else len(scene.points)


class FirstSplats:
    """Those of a checkpoint, or new ones; a thread begins with new ones at once where the scene has
    points, or a file the splats.

    count: how many there are.
    """

    def __init__(
        self,
        config: TrainConfig,
        scene: Scene,
        checkpoint: Checkpoint | None,
        background: Background,
    ):
        self._config, self._scene, self._checkpoint = config, scene, checkpoint
        self._random = checkpoint is None and starts_random(config, scene)
        self.count = checkpoint.splats if checkpoint else _count(config, scene)
        self._begun: Future[Gaussians] | None = None
        if not (checkpoint or self._random):
            self._begun = background.do(
                "first splats", lambda: initial_gaussians(config, scene), line="first splats"
            )

    def put(self, session: Session) -> Checkpoint:
        """Puts the session there, or at the first step. Raises OutOfMemory."""
        try:
            if self._random:
                session.room.check(session.config, self.count)
            start = self._checkpoint or session.initial(
                self._begun.result()
                if self._begun
                else initial_gaussians(self._config, self._scene)
            )
            session.restore(start)
        except OutOfMemory as error:
            raise OutOfMemory(
                str(error), "random splats" if self._random else error.grows_with
            ) from None
        return start
