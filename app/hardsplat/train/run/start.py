"""What a training begins with: notes on its scene, the first splats, its session."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background, outcome
from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.pipelines import begin_all
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.sky import load_drawn
from hardsplat.io.splats import open_splats
from hardsplat.model import morton
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.sky import Sky
from hardsplat.raster.backends import BACKENDS, unused
from hardsplat.results.model import find_model
from hardsplat.settings.option import flag
from hardsplat.settings.scene import StartSettings
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES
from hardsplat.step.photos import Photos
from hardsplat.step.runner import BatchResult
from hardsplat.train.job.job import Job
from hardsplat.train.run.cube import random_cube
from hardsplat.train.run.photographs import Loader
from hardsplat.train.session.session import Session
from hardsplat.train.step.capture import PhotographPasses
from hardsplat.train.step.step import step_passes

# of given splats: formats of 8 bits have opacities of 0 and 1
_OPACITIES, _LEAST_SCALE = (1e-3, 1 - 1e-3), 1e-9

# of a pixel, as long as no photograph has alpha; the passes of another number are built when they
# are needed
PHOTO_BYTES = 3


def print_notes(config: TrainConfig, scene: Scene) -> None:
    """Prints what the user should know of the scene before the training begins."""
    start, run, antialiased = config.start, config.run, config.raster.antialiased
    notes = [*scene.notes]
    if start.init is None and start.init_type == "sfm" and not len(scene.points):
        centre, reach = random_cube(start, scene)
        around = "({:.3g}, {:.3g}, {:.3g})".format(*centre)
        notes.append(
            f"{scene.name} has no points: starting from {start.init_num_pts} random ones up to "
            f"{reach:.3g} from {around} along each axis"
        )
    most = config.densify.cap_max
    given = None if run.resume or run.ckpt else start.init
    by_points = not (run.resume or run.ckpt or start.init or is_random(start, scene))
    if by_points and 0 < most < len(scene.points):
        of = f"{most} of the scene's {len(scene.points)} points"
        notes.append(f"starting from {of}, since the run may have no more splats")
    if given is not None and (was := find_model(given)[1].raster.antialiased) != antialiased:
        were, now = ("with", "without") if was else ("without", "with")
        notes.append(f"the splats of {given} were trained {were} --antialiased and go on {now} it")
    if config.densify.strategy == "none" and not (run.resume or run.ckpt or given):
        notes.append("--strategy none keeps the first splats; --init RESULT trains a result on")
    if not (run.resume or run.ckpt) and (idle := _idle(config, scene)):
        begins = f"those of {given}" if given is not None else "the points of the scene"
        notes.append(f"{', '.join(map(flag, idle))}: not used, since the first splats are {begins}")
    if config.poses.pose_opt and any(view.photograph for view in scene.views):
        notes.append("--pose-opt moves each of the six views of a panorama on its own")
    if idle := [n for n in unused(config.raster, config.gradient) if n in config.typed]:
        flags = ", ".join(map(flag, idle))
        notes.append(f"--gradient {config.gradient.gradient} does not use {flags}")
    for note in notes:
        tqdm.write(f"note: {note}")


def _idle(config: TrainConfig, scene: Scene) -> list[str]:
    """Settings of the first splats that the user named, and that this start does not look at."""
    start = config.start
    if is_random(start, scene):
        return []
    names = [
        "init_num_pts",
        "init_extent",
        *["init_type", "init_opa", "init_scale"] * bool(start.init),
    ]
    return [name for name in names if name in config.typed]


def is_random(start: StartSettings, scene: Scene) -> bool:
    """Whether the first splats lie at random places."""
    return start.init is None and (start.init_type == "random" or not len(scene.points))


def initial_gaussians(
    start: StartSettings, scene: Scene, sh_degree: int, seed: int = 42
) -> Gaussians:
    """Splats at the SfM points, random ones in a cube, or those of a file."""
    return _first(start, scene, sh_degree, seed)[0]


def _first(
    start: StartSettings, scene: Scene, sh_degree: int, seed: int, most: int = 0
) -> tuple[Gaussians, Sky | None]:
    """initial_gaussians, and the sky of a file. most: points of the scene that are taken, at
    random; 0: all.

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
    return gaussians, None


def _given(path: Path, sh_degree: int) -> tuple[Gaussians, Sky | None]:
    """Splats of a file or a result folder as training takes them, SH bands up to that degree and
    nothing at the end of its range, where gradients vanish; and the sky behind them."""
    given, sky = load_drawn(find_model(path)[0])
    given = given[morton.order_by_rank(given.means)]
    opacities = np.clip(given.opacities, *_OPACITIES)
    scales, sh = np.maximum(given.scales, _LEAST_SCALE), given.sh[:, : (sh_degree + 1) ** 2]
    shapes = (given.means, given.quats, scales, opacities)
    return Gaussians(*shapes, sh, given.extra, check=False), sky


def _put_sky(start: Checkpoint, sky: Sky) -> None:
    """A new sky begins as that of a file; a note where there is no place for it."""
    place = start.buffers["sky"]
    if place.shape[1:] == sky.texels.shape:
        place[:] = sky.texels
    else:
        tqdm.write("note: the sky of --init is left out (--background sphere trains it on)")


class FirstSplats:
    """Those of a checkpoint, or new ones; a thread begins with new ones at once where the scene has
    points, or a file the splats.

    count: how many there are at most. step: of the checkpoint.
    """

    def __init__(
        self,
        config: TrainConfig,
        scene: Scene,
        checkpoint: Checkpoint | None,
        background: Background,
    ):
        start, own = config.start, (config.model.sh_degree, config.run.seed)
        most = config.densify.cap_max
        self._make = lambda: _first(start, scene, *own, most)
        self._checkpoint, self.step = checkpoint, checkpoint.step if checkpoint else 0
        self._random = checkpoint is None and is_random(start, scene)
        self._begun: Future[tuple[Gaussians, Sky | None]] | None = None
        points = len(scene.points)
        self.count = start.init_num_pts if self._random else min(points, most or points)
        if checkpoint:
            self.count = checkpoint.splats
        elif start.init is not None:
            self.count = open_splats(find_model(start.init)[0]).count
        if not (checkpoint or self._random):
            self._begun = background.do("first splats", self._make, line="first splats")

    def put(self, session: Session) -> Checkpoint:
        """Puts the session there, or at the first step. Raises OutOfMemory."""
        try:
            if self._random:
                session.room.check(self.count, session.rasterizer)
            start = self._checkpoint or self.state(session)
            session.restore(start)
        except OutOfMemory as error:
            grows = "random splats" if self._random else error.grows_with
            raise OutOfMemory(str(error), grows) from None
        return start

    def state(self, session: Session) -> Checkpoint:
        """The state of the session at the first step, with new splats."""
        begun, self._begun = self._begun, None
        first, sky = outcome(begun, "the first splats") if begun else self._make()
        start = session.initial(first)
        if sky is not None:
            _put_sky(start, sky)
        return start


def known_depths(job: Job, scene: Scene) -> list[np.ndarray] | None:
    """What is known of the depth of training views, where the loss wants it: (H, W), 1 / world
    units, 0 where nothing is."""
    if not job.config.depth.depth_lambda:
        return None
    from hardsplat.io.scenes.depths import known_disparities

    folder = scene_folder(job.config.scene.data_dir)
    known, label = known_disparities(folder, scene, scene.train)
    tqdm.write(f"note: {label} are in the loss")
    return known


def build_ahead(device: Device, job: Job) -> None:
    """Has threads begin with the pipelines that a session of the job builds, for each of its
    rasterizers in turn, and those that measure it.

    Nothing is lost where it builds other passes: it builds those itself. Raises UserError for what
    the device cannot run.
    """
    planes = (job.config.model.sh_degree + 1) ** 2
    for name in job.rasterizers:
        backend, options = BACKENDS[name], job.options(name)
        first = backend.first_runnable(device, options)
        if len(job.rasterizers) == 1 and first != options:
            continue  # the session will time what is left open, which takes the device
        sink = job.sink(bool(job.config.depth.depth_lambda))
        begin_all(device, backend.passes(device, planes, *job.views.canvas, first, sink))
        if name == job.rasterizers[0]:
            begin_all(device, step_passes(job, job.schedule, PhotographPasses(job), PHOTO_BYTES))
    begin_all(device, (*METRIC_PASSES, *FITTED_PASSES))


def open_session(
    device: Device,
    job: Job,
    loader: Loader,
    on_batch: Callable[[BatchResult], None],
    clock: PhaseClock,
) -> Session:
    """Buffers and commands of the training. Pipelines are built by threads while the last
    photographs are read. on_batch: see Session."""
    c = job.config
    build_ahead(device, job)
    clock.begin("load")
    images = list(loader.training(c.run.quiet))
    loader.look_for_blur(images, c.run.quiet)
    depths, timed = known_depths(job, loader.scene), len(job.rasterizers) < 2
    ring, fetches = 2 * c.run.batch_steps, not c.depth.depth_lambda
    photos = Photos(device, images, c.run.images, ring, fetches)
    clock.begin("setup")
    return Session(device, job, photos, on_batch, depths, timed)
