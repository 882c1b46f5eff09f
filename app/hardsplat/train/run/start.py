"""What a run begins with: what is known from an earlier run, its scene and its device; and its
first splats, at the points of the scene, at random places, or those of a file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background, outcome
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu.device.context import Device
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.model import load_model
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import open_splats
from hardsplat.model import morton
from hardsplat.model.framing import nearest_to_axes
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import ignored_options
from hardsplat.results.folder import is_complete
from hardsplat.results.model import find_model, with_one_digit
from hardsplat.settings.option import flag
from hardsplat.settings.presets import SAVED_NAME, read_saved
from hardsplat.settings.scene import StartSettings
from hardsplat.settings.train import TrainConfig
from hardsplat.train.features.intrinsics import check_lenses
from hardsplat.train.features.region import TrainedRegion
from hardsplat.train.job.facts import DeviceFacts, Facts, NearPlane, ScenePart, training_views
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.job.validation import next_look, whole_steps
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log

# a near plane that the scene chooses, of the depth of its nearest points, or of the cameras' extent
PLANE_OF_NEAREST, PLANE_OF_EXTENT = 0.01, 0.001
NEAR_OF_EXTENT = 0.1  # most of the default, where no points tell how far things are
MOST_HIDDEN = 0.05  # of the points that photographs show, nearer than --near-plane without a note
# of given splats: formats of 8 bits have opacities of 0 and 1
_OPACITIES, _LEAST_SCALE = (1e-3, 1 - 1e-3), 1e-9
OF_DISTANCE = 0.3225  # of the cameras, around an object: 1.3 in scenes of NeRF-synthetic
OF_EXTENT = 2.0  # of the cameras, around them, where photographs show what surrounds them
_TRANSPARENT = 0.1  # of an object's photograph, at least
LARGE = 1600  # px of a photograph's longer side, which most programs train at the most


def is_random(start: StartSettings, scene: Scene) -> bool:
    """Whether the first splats lie at random places."""
    return start.init is None and (start.init_type == "random" or not len(scene.points))


def random_cube(start: StartSettings, scene: Scene) -> tuple[np.ndarray, float]:
    """Centre (3,) and half the side, world units, of the cube of random splats. --init-extent names
    one around the origin. Else it follows from the training cameras: around what they look at where
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
    view = scene.views[scene.train[0]]
    image = view.load()
    nothing = view.mask is None or view.mask_mode != "ignore"
    return nothing and image.shape[2] == 4 and (image[..., 3] == 0).mean() > _TRANSPARENT


def limited(count: int, most: int) -> int:
    """How many of so many first splats there are. most: that the run may have; 0: any number."""
    return min(count, most or count)


def initial_gaussians(
    start: StartSettings, scene: Scene, sh_degree: int, seed: int = 42, most: int = 0
) -> Gaussians:
    """Splats at the SfM points, random ones in a cube, or the model of a file. most: splats that
    the run may have, so points of the scene that are taken, at random; 0: any number.

    Neighbours are visible together, so they are contiguous in memory, and those that they grow
    mostly are as well (docs/results/speed.md).
    """
    if start.init is not None:
        return _given(start.init, sh_degree)
    points, colors = scene.points, scene.colors
    if is_random(start, scene):
        rng, size = np.random.default_rng(seed), (limited(start.init_num_pts, most), 3)
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
    """Splats that a run begins with: those of a checkpoint, or new ones. A thread makes new ones at
    once where the scene has points, or a file the splats.

    count: how many there are at most. init: what has them where the settings name that.
    """

    def __init__(
        self,
        config: TrainConfig,
        scene: Scene,
        checkpoint: Checkpoint | None,
        background: Background,
    ):
        start, degree, most = config.start, config.model.sh_degree, config.densify.cap_max
        self.init, seed = start.init, config.run.seed
        self._make = lambda: initial_gaussians(
            replace(start, init=self.init), scene, degree, seed, most
        )
        self._checkpoint = checkpoint
        self._random = checkpoint is None and is_random(start, scene)
        self._begun: Future[Gaussians] | None = None
        self._file: Path | None = None
        if checkpoint:
            self.count = checkpoint.splats
        elif start.init is not None:
            self._file = find_model(start.init)[0]
            self.count = open_splats(self._file).count
        else:
            self.count = limited(start.init_num_pts if self._random else len(scene.points), most)
        if not (checkpoint or self._random):
            self._begun = background.do("first splats", self._make, line="first splats")

    def archived(self, folder: Path, earlier: Path) -> None:
        """What an earlier run had left in the folder is in `earlier` now, from where a run that
        begins again has its first splats."""
        if self._file and not self._file.exists():
            self.init = earlier / self._file.resolve().relative_to(folder.resolve())

    def restore_into(self, session: Session) -> Checkpoint:
        """Has the session begin with `state`, which is returned. Raises OutOfMemory, which says
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
            session.limit.check(self.count, session.drawing.rasterizer)
        begun, self._begun = self._begun, None
        first = outcome(begun, "the first splats") if begun else self._make()
        if first.sky and len(first.sky.texels) != session.job.items["texel"]:
            tqdm.write("note: the sky of --init is left out (--background sphere trains it on)")
            first = replace(first, sky=None, check=False)
        return session.initial(first)


def gather(
    config: TrainConfig,
    scene: Scene,
    device: Device,
    splats: int,
    log: Log,
    part: ScenePart,
    region: TrainedRegion | None,
) -> Facts:
    """splats: at first. log: of the run so far. part, region: of the scene that is trained. Raises
    UserError for what the device cannot run, and for photographs that do not show the points."""
    if config.intrinsics.intrinsics_opt:
        check_lenses(scene.views)
    views = training_views(scene)
    near_plane: NearPlane | None = None
    depths = views.depths(scene.points)
    if medians := [np.median(each) for each in depths if len(each)]:
        views = replace(views, depth=float(np.median(medians)))
    if is_random(config.start, scene):
        near_plane = near_plane_of_cameras(config, scene.extent)
    elif config.start.init is None:
        near_plane = near_plane_of_points(config, depths)
    elif part.reports and not (config.run.resume or config.run.ckpt):
        near_plane = near_plane_of_init(config, config.start.init)
    return Facts(
        views,
        DeviceFacts.of(device, config),
        splats,
        replace(part, region=region.region) if region else part,
        region.preferred(scene) if region else (),
        settled=log.settled,
        over=bool(log.looks and log.steps) and log.steps[-1] >= next_look(log.looks[-1].step),
        decay=log.looks[-1].decay if log.looks else 0.0,
        near_plane=near_plane,
    )


def near_plane_of_points(config: TrainConfig, depths: Sequence[np.ndarray]) -> NearPlane | None:
    """A nearer plane, where that of the settings hides many of the first splats and the user has
    not named it; where the user has, a note is printed. depths: of points that each view shows,
    world units. Raises UserError where no view shows a point."""
    near, where, shown = config.scene.near_plane, config.scene.data_dir, np.concatenate(depths)
    if not len(shown):
        what = "no training photograph shows a point of the model"
        raise UserError(f"{where}: {what}; cameras and points do not belong together")
    hidden = float(np.mean(shown < near))
    if hidden <= MOST_HIDDEN:
        return None
    better = with_one_digit(PLANE_OF_NEAREST * np.quantile(shown, 0.01))
    what = f"{100 * hidden:.0f} % of the points that photographs show are nearer than {near:g}"
    if not config.names_near_plane:
        return NearPlane(better, what)
    if hidden == 1:
        what = f"no training photograph shows a point that is farther than --near-plane {near:g}"
        raise UserError(f"{where}: {what}; choose {better:g} or so")
    tqdm.write(f"note: {what}, and --near-plane hides them: choose {better:g} or so")
    return None


def near_plane_of_cameras(config: TrainConfig, extent: float) -> NearPlane | None:
    """A nearer plane, where that of the settings hides much around cameras of this extent, of which
    no points tell, and the user has not named it."""
    near = config.scene.near_plane
    if config.names_near_plane or near <= NEAR_OF_EXTENT * extent:
        return None
    what = f"cameras are {extent:.2g} world units from one another, beside a near plane of {near:g}"
    return NearPlane(with_one_digit(PLANE_OF_EXTENT * extent), what)


def near_plane_of_init(config: TrainConfig, init: Path) -> NearPlane | None:
    """The near plane of the splats that a run begins with, where that is nearer, and the user has
    named none."""
    near = find_model(init)[1].scene.near_plane
    if config.names_near_plane or near >= config.scene.near_plane:
        return None
    return NearPlane(near, f"{init} has splats in small units")


def checkpoint_to_resume(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """The checkpoint that the settings name, or the newest of the result folder with `resume`; None
    for a run from the start.

    Raises UserError where there is none, and where there is nothing to continue.
    """
    settings = config.run
    path, steps = settings.ckpt, settings.max_steps
    if settings.resume:
        path = checkpoints.newest(folder)
        if path is None:
            again, saved = "start without --resume", folder / SAVED_NAME
            if saved.is_file():
                again = f"begin again: hardsplat train --config {shlex.quote(str(saved))}"
            raise UserError(f"{folder}: no checkpoint to resume from; {again}")
    if path is None:
        return None
    start = checkpoints.load(path)
    if settings.early_stop and (settled := start.log.get("settled")):
        steps = whole_steps(settled)
    saved = path.parent.parent / SAVED_NAME
    degree, filtered = config.model.sh_degree, config.raster.antialiased
    began = bool(read_saved(saved).get("antialiased")) if saved.is_file() else filtered
    made, this = "", ""
    if start.sh_degree != degree:
        made, this = f"--sh-degree {start.sh_degree}", str(degree)
    elif began != filtered:
        made, this = (f"--{'' if each else 'no-'}antialiased" for each in (began, filtered))
    if made:
        helps = saved.is_file() and not settings.resume
        advice = f"; add --config {shlex.quote(str(saved))}" if helps else ""
        raise UserError(f"{path}: made with {made}, this run has {this}{advice}")
    complete = not settings.resume or is_complete(folder, start.step)
    if start.step > steps or (start.step == steps and complete):
        raise UserError(
            f"{path}: has {start.step} steps already, of {steps}; continue with more --max-steps"
        )
    return start


def print_notes(
    config: TrainConfig, scene: Scene, region: TrainedRegion | None = None, whole: bool = True
) -> None:
    """Prints what the user should know of the scene before the training begins. whole: it is not
    a part of another training, which has said how large photographs are."""
    start, run, antialiased = config.start, config.run, config.raster.antialiased
    notes, most = [*scene.notes], config.densify.cap_max
    new, random = not (run.resume or run.ckpt), is_random(start, scene)
    given = start.init if new else None
    if new and random and start.init_type == "sfm":
        centre, reach = random_cube(start, scene)
        shown = np.where(np.abs(centre) < 1e-3 * reach, 0, centre)
        around = "({:.3g}, {:.3g}, {:.3g})".format(*shown)
        notes.append(
            f"{scene.name} has no points: starting from {limited(start.init_num_pts, most):,} "
            f"random ones up to {reach:.3g} from {around} along each axis"
        )
    first, of = len(scene.points), f"the scene's {len(scene.points):,} points"
    if random:  # of the default no one needs to know
        first = start.init_num_pts if "init_num_pts" in config.typed else 0
        of = f"{first:,} random ones"
    if new and start.init is None and 0 < most < first:
        notes.append(f"starting from {most:,} of {of}, since the run may have no more splats")
    if given is not None and (was := find_model(given)[1].raster.antialiased) != antialiased:
        were, now = ("with", "without") if was else ("without", "with")
        notes.append(f"the splats of {given} were trained {were} --antialiased and go on {now} it")
    if config.densify.strategy == "none" and new and not given:
        notes.append("--strategy none keeps the first splats; --init RESULT trains a result on")
    if new and (idle := _idle(config, scene)):
        begins = f"those of {given}" if given is not None else "the points of the scene"
        notes.append(f"{', '.join(map(flag, idle))}: not used, since the first splats are {begins}")
    notes += _unused_steps(config)
    if config.poses.pose_opt and any(view.is_part for view in scene.views):
        notes.append("--pose-opt moves each of the six views of a panorama on its own")
    if idle := [n for n in ignored_options(config.raster, config.gradient) if n in config.typed]:
        flags = ", ".join(map(flag, idle))
        notes.append(f"--gradient {config.gradient.gradient} does not use {flags}")
    if region:
        notes.append(region.note(scene))
    notes += size_notes(config, scene) if whole else []
    for note in notes:
        tqdm.write(f"note: {note}")


def size_notes(config: TrainConfig, scene: Scene) -> list[str]:
    """The --data-factor that makes large photographs smaller, where none is named. A scene that is
    no folder has none."""
    run, side = config.run, max(max(v.camera.width, v.camera.height) for v in scene.views)
    named = "data_factor" in config.typed or config.scene.data_factor > 1
    if side <= LARGE or named or run.resume or run.ckpt or config.scene.data_dir is None:
        return []
    what = f"photographs are trained at up to {side} pixels a side"
    factor = f"--data-factor {math.ceil(side / LARGE)}"
    return [f"{what}; {factor} makes them smaller, which trains faster"]


def _unused_steps(config: TrainConfig) -> Iterator[str]:
    """Where splats are neither added nor pruned, though settings that the user named ask for it."""
    c, last = config.densify, config.run.max_steps
    first, stop = (c.refine_start_iter // c.refine_every + 1) * c.refine_every, c.refine_stop_iter
    named = sorted({"refine_start_iter", "refine_every"} & config.typed)
    if named and c.strategy != "none" and first >= min(stop, last):
        when = f"densifications would begin with step {first} and end before {min(stop, last)}"
        yield f"{', '.join(map(flag, named))}: no splats are added, since {when}"
    if c.budget.prune_to < 1 and not Schedule(config).strategy.prunings():
        when = f"pruning would begin at step {stop} and end at {c.budget.prune_to_iter}"
        of = f"of {last} (--refine-stop-iter, --prune-to-iter)"
        yield f"--prune-to {c.budget.prune_to:g}: not used, since {when} {of}"


def _idle(config: TrainConfig, scene: Scene) -> list[str]:
    """Settings of the first splats that the user named, and that this start does not look at."""
    start = config.start
    if is_random(start, scene):
        return []
    names = ["init_num_pts", "init_extent"]
    names += ["init_type", "init_opa", "init_scale"] if start.init else []
    return [name for name in names if name in config.typed]
