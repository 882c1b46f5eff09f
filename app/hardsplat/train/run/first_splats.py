"""The first splats of a run: at the points of its scene, at random places, or those of a file."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background, outcome
from hardsplat.base.errors import OutOfMemory
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.model import load_model
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import open_splats
from hardsplat.model import morton
from hardsplat.model.framing import nearest_to_axes
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.model import find_model
from hardsplat.settings.scene import StartSettings
from hardsplat.settings.train import TrainConfig
from hardsplat.train.session.session import Session

# of given splats: formats of 8 bits have opacities of 0 and 1
_OPACITIES, _LEAST_SCALE = (1e-3, 1 - 1e-3), 1e-9
OF_DISTANCE = 0.3225  # of the cameras, around an object: 1.3 in scenes of NeRF-synthetic
OF_EXTENT = 2.0  # of the cameras, around them, where photographs show what surrounds them
_TRANSPARENT = 0.1  # of an object's photograph, at least


def is_random(start: StartSettings, scene: Scene) -> bool:
    """Whether the first splats lie at random places."""
    return start.init is None and (start.init_type == "random" or not len(scene.points))


def random_cube(start: StartSettings, scene: Scene) -> tuple[np.ndarray, float]:
    """Centre (3,) and half the side, world units, of the cube of random splats: that of
    --init-extent around the origin; else by the training cameras, around what they look at where
    photographs show an object on nothing, and around themselves in other scenes."""
    if start.init_extent is not None:
        return np.zeros(3), start.init_extent
    cameras = [scene.views[i].camera for i in scene.train]
    positions = np.array([camera.position for camera in cameras])
    if not _shows_an_object(scene):
        return positions.mean(axis=0), OF_EXTENT * scene.extent
    forwards = np.array([camera.w2c[2, :3] for camera in cameras])
    centre = nearest_to_axes(positions, forwards, scene.points)
    return centre, OF_DISTANCE * float(np.linalg.norm(positions - centre, axis=1).mean())


def _shows_an_object(scene: Scene) -> bool:
    """Whether the first training photograph shows one on nothing."""
    view = scene.views[scene.train[0]]
    image = view.load()
    nothing = view.mask is None or view.mask_mode != "ignore"
    return nothing and image.shape[2] == 4 and (image[..., 3] == 0).mean() > _TRANSPARENT


def initial_gaussians(
    start: StartSettings, scene: Scene, sh_degree: int, seed: int = 42, most: int = 0
) -> Gaussians:
    """Splats at the SfM points, random ones in a cube, or the model of a file. most: points of the
    scene that are taken, at random; 0: all.

    Neighbours are visible together, so they are contiguous in memory, and those that they grow
    mostly are as well (docs/results/speed.md).
    """
    if start.init is not None:
        return _given(start.init, sh_degree)
    points, colors = scene.points, scene.colors
    if is_random(start, scene):
        rng, size = np.random.default_rng(seed), (start.init_num_pts, 3)
        centre, reach = random_cube(start, scene)
        points = centre + rng.uniform(-reach, reach, size)
        colors = rng.integers(0, 256, size)
    elif 0 < most < len(points):
        kept = np.random.default_rng(seed).permutation(len(points))[:most]
        points, colors = points[kept], colors[kept]
    order = morton.order_by_rank(points)
    gaussians = Gaussians.from_points(points[order], colors[order], sh_degree, start.init_opa)
    gaussians.scales = gaussians.scales * np.float32(start.init_scale)
    return gaussians


def _given(path: Path, sh_degree: int) -> Gaussians:
    """The model of a file or a result folder as training takes it, SH bands up to that degree and
    nothing at the end of its range, where gradients vanish."""
    given = load_model(find_model(path)[0])
    given = given[morton.order_by_rank(given.means)]
    opacities = np.clip(given.opacities, *_OPACITIES)
    scales, sh = np.maximum(given.scales, _LEAST_SCALE), given.sh[:, : (sh_degree + 1) ** 2]
    return replace(given, scales=scales, opacities=opacities, sh=sh, check=False)


class InitialSplats:
    """Those of a checkpoint, or new ones; a thread begins with new ones at once where the scene has
    points, or a file the splats.

    count: how many there are at most.
    """

    def __init__(
        self,
        config: TrainConfig,
        scene: Scene,
        checkpoint: Checkpoint | None,
        background: Background,
    ):
        start, degree, most = config.start, config.model.sh_degree, config.densify.cap_max
        self._make = lambda: initial_gaussians(start, scene, degree, config.run.seed, most)
        self._checkpoint = checkpoint
        self._random = checkpoint is None and is_random(start, scene)
        self._begun: Future[Gaussians] | None = None
        points = len(scene.points)
        self.count = start.init_num_pts if self._random else min(points, most or points)
        if checkpoint:
            self.count = checkpoint.splats
        elif start.init is not None:
            self.count = open_splats(find_model(start.init)[0]).count
        if not (checkpoint or self._random):
            self._begun = background.do("first splats", self._make, line="first splats")

    def begin(self, session: Session) -> Checkpoint:
        """Begins the session with `state`, which is returned. Raises OutOfMemory, which says
        whether there are too many random ones."""
        try:
            session.restore(start := self.state(session))
        except OutOfMemory as error:
            grows = "random splats" if self._random else error.grows_with
            raise OutOfMemory(str(error), grows) from None
        return start

    def state(self, session: Session) -> Checkpoint:
        """The state that the session begins with: at first that of the checkpoint, if there is one,
        or else the first step with new splats. Raises OutOfMemory."""
        resumed, self._checkpoint = self._checkpoint, None
        if resumed:
            return resumed
        if self._random:
            session.capacity.check(self.count, session.drawing.rasterizer)
        begun, self._begun = self._begun, None
        first = outcome(begun, "the first splats") if begun else self._make()
        if first.sky and len(first.sky.texels) != session.job.items["texel"]:
            tqdm.write("note: the sky of --init is left out (--background sphere trains it on)")
            first = replace(first, sky=None, check=False)
        return session.initial(first)
