"""What is known of a run before its first step, from an earlier run, its scene and its device."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import Scene
from hardsplat.raster.backends import unused
from hardsplat.results.folder import is_complete
from hardsplat.results.model import find_model
from hardsplat.settings.option import flag
from hardsplat.settings.presets import SAVED_NAME, read_saved
from hardsplat.settings.train import TrainConfig
from hardsplat.train.features.intrinsics import check_lenses
from hardsplat.train.features.region import TrainedRegion
from hardsplat.train.job.facts import WHOLE, DeviceFacts, Facts, Nearer, ScenePart, training_views
from hardsplat.train.job.validation import whole_steps
from hardsplat.train.run.first_splats import is_random, random_cube
from hardsplat.train.watchers.log import Log

# a near plane that the scene chooses, of the depth of its nearest points, or of the cameras' extent
OF_NEAREST, OF_EXTENT = 0.01, 0.001
NEAR_OF_EXTENT = 0.1  # most of the default, where no points tell how far things are
MOST_HIDDEN = 0.05  # of the points that photographs show, nearer than --near-plane without a note


def gather(
    config: TrainConfig,
    scene: Scene,
    device: Device,
    splats: int,
    log: Log,
    part: ScenePart = WHOLE,
    place: TrainedRegion | None = None,
) -> Facts:
    """splats: at first. log: of the run so far. part, place: of the scene that is trained. Raises
    UserError for what the device cannot run, and for photographs that do not show the points."""
    if config.intrinsics.intrinsics_opt:
        check_lenses(scene.views)
    views, points = training_views(scene), scene.points
    share, depths = views.shown(points)
    nearer: Nearer | None = None
    if is_random(config.start, scene):
        nearer = nearer_in(config, scene.extent)
    elif config.start.init is None:
        nearer = check_points(config, depths)
    return Facts(
        views,
        DeviceFacts.of(device, config),
        splats,
        len(points),
        share,
        replace(part, region=place.region) if place else part,
        place.preferred(scene) if place else (),
        settled=log.settled,
        decay=log.looks[-1].decay if log.looks else 0.0,
        nearer=nearer,
    )


def check_points(config: TrainConfig, depths: np.ndarray) -> Nearer | None:
    """A nearer plane, where that of the settings hides many of the first splats and the user has
    not named it; where the user has, a note is printed. depths: of points, in the views that show
    them, world units. Raises UserError where no view shows a point."""
    near, where = config.scene.near_plane, config.scene.data_dir
    if not len(depths):
        what = "no training photograph shows a point of the model"
        raise UserError(f"{where}: {what}; cameras and points do not belong together")
    hidden = float(np.mean(depths < near))
    if hidden <= MOST_HIDDEN:
        return None
    better = _rounded(OF_NEAREST * np.quantile(depths, 0.01))
    what = f"{100 * hidden:.0f} % of the points that photographs show are nearer than {near:g}"
    if "near_plane" not in config.typed:
        return Nearer(better, what)
    if hidden == 1:
        what = f"no training photograph shows a point that is farther than --near-plane {near:g}"
        raise UserError(f"{where}: {what}; choose {better:g} or so")
    tqdm.write(f"note: {what}, and --near-plane hides them: choose {better:g} or so")
    return None


def nearer_in(config: TrainConfig, extent: float) -> Nearer | None:
    """A nearer plane, where that of the settings hides much around cameras of this extent, of which
    no points tell, and the user has not named it."""
    near = config.scene.near_plane
    if "near_plane" in config.typed or near <= NEAR_OF_EXTENT * extent:
        return None
    what = f"cameras are {extent:.2g} world units from one another, beside a near plane of {near:g}"
    return Nearer(_rounded(OF_EXTENT * extent), what)


def _rounded(distance: float) -> float:
    """With one digit."""
    return float(f"{distance:.1g}")


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
            raise UserError(f"{folder}: no checkpoint to resume from; start without --resume")
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


def print_notes(config: TrainConfig, scene: Scene) -> None:
    """Prints what the user should know of the scene before the training begins."""
    start, run, antialiased = config.start, config.run, config.raster.antialiased
    notes = [*scene.notes]
    if start.init is None and start.init_type == "sfm" and not len(scene.points):
        centre, reach = random_cube(start, scene)
        around = "({:.3g}, {:.3g}, {:.3g})".format(*centre)
        notes.append(
            f"{scene.name} has no points: starting from {start.init_num_pts:,} random ones up to "
            f"{reach:.3g} from {around} along each axis"
        )
    most = config.densify.cap_max
    given = None if run.resume or run.ckpt else start.init
    by_points = not (run.resume or run.ckpt or start.init or is_random(start, scene))
    if by_points and 0 < most < len(scene.points):
        of = f"{most:,} of the scene's {len(scene.points):,} points"
        notes.append(f"starting from {of}, since the run may have no more splats")
    if given is not None and (was := find_model(given)[1].raster.antialiased) != antialiased:
        were, now = ("with", "without") if was else ("without", "with")
        notes.append(f"the splats of {given} were trained {were} --antialiased and go on {now} it")
    if config.densify.strategy == "none" and not (run.resume or run.ckpt or given):
        notes.append("--strategy none keeps the first splats; --init RESULT trains a result on")
    if not (run.resume or run.ckpt) and (idle := _idle(config, scene)):
        begins = f"those of {given}" if given is not None else "the points of the scene"
        notes.append(f"{', '.join(map(flag, idle))}: not used, since the first splats are {begins}")
    if config.poses.pose_opt and any(view.is_part for view in scene.views):
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
    names = ["init_num_pts", "init_extent"]
    names += ["init_type", "init_opa", "init_scale"] if start.init else []
    return [name for name in names if name in config.typed]
