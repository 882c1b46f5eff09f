"""One block, trained by a process of its own: `python -m hardsplat.blocks.leaf FOLDER`.

FOLDER has task.json; the outcome is its block.json. It saves and ends when its standard input
closes, since its parent may be gone.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.files import write_json
from hardsplat.blocks.plan import BlockPlan, SceneBlock, block_of, load_plan
from hardsplat.blocks.planner import halved
from hardsplat.blocks.scaffold import Scaffold
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import opening
from hardsplat.io.formats.checkpoint import newest
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.scenes.source import extent_of
from hardsplat.io.splats import open_splats, save_splats, usable_pieces
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.region import Region
from hardsplat.settings.presets import of_length
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.study.workers import as_child
from hardsplat.train import PhotographLoader, Running, Watcher

TASK, OUTCOME, START = "task.json", "block.json", "start.ply"
WARM = 0.4  # of the rate of means: splats of the scaffold are near their places
SLACK = 1.3  # of an image's half size, within which the mean of a splat may show in it
STILL = 1e-15  # rate of means that stay where they are
GROWN = 0.9  # of its most splats, from which a block continues without more of them


class FullDevice(Watcher):
    """Ends the run of a block once its device holds no more splats, far from all that it may
    have."""

    def turn(self, run: Running, wait: bool = False) -> None:
        session = run.session
        most = session.job.config.densify.cap_max
        if session.limit.stopped and session.store.bound < GROWN * most:
            run.stop()


def train_block(folder: Path, device: str | None, quiet: bool) -> dict[str, Any]:
    """Trains the block of a folder, or continues it, and returns what its block.json holds: also
    when it was begun and ended, s of the clock, and on which device."""
    began = time.time()
    with opening(device) as opened:
        found = _train_block(folder, quiet, opened)
    return found | {"device": device or "", "wall": [began, time.time()]}


def _train_block(folder: Path, quiet: bool, device: Future[Device]) -> dict[str, Any]:
    task = json.loads((folder / TASK).read_text(encoding="utf-8"))
    scaffold, grows = Scaffold.of(Path(task["scaffold"])), task["grows"]
    given = TrainConfig.of(**task["settings"] | {"result_dir": folder, "quiet": quiet})
    given = replace(given, typed=frozenset({"near_plane"}))  # tasks have that of all blocks
    config, s = scaffold.settings(given, ends=not grows), given.scene
    given_scene = load_scene(scene_folder(s.data_dir), undistort=s.undistort, **s.reading)
    whole = scaffold.scene(given_scene)
    names = [whole.views[i].name for i in whole.train]
    plan, block = load_plan(Path(task["plan"]), names, whole.name), block_of(task["block"])
    scene, first, resumed = part_of(whole, block), folder / START, newest(folder) is not None
    photographs = PhotographLoader(scene)  # whose threads read them
    region = block.region(plan.axes)
    if resumed and first.is_file():
        count, outside = _counts(open_splats(first).pieces(), region)
    else:
        save_splats(first, begins := first_splats(task["start"], plan, block, scene))
        count, outside = _counts([begins], region)
        del begins  # it may be large
    config = settings_of(config, block, first, count, outside, grows)
    part = scaffold.part(whole, set(block.photographs), region)
    from hardsplat.train import run_training  # while photographs are read

    watchers = [FullDevice()] if grows else []
    try:
        config, made = config.changed(resume=resumed), 0
        metrics = run_training(config, watchers, device=device, photographs=photographs, part=part)
        made, at, count = metrics["steps"], folder / "splats.ply", metrics["splats"]
        full = None if made == block.steps else UserError("")
    except OutOfMemory as error:
        full, made, at = error, 0, first
    if full is not None:
        if halves := halved(plan, block, scene, at, made, s.near_plane, device.result()):
            parts = {"blocks": [asdict(b) for b in halves], "steps": made}
            return {"status": "split", "splats": count, **parts}
        if not made:
            raise full
        config, photographs = config.changed(resume=True), PhotographLoader(scene)
        metrics = run_training(config, device=device, photographs=photographs, part=part)
    seconds = metrics["seconds"]
    own = {"seconds": seconds["training"], "parts": seconds["parts"], "outside": outside}
    own |= {"steps": metrics["steps"]}
    return {"status": "done", "splats": metrics["splats"], **own}


def settings_of(
    config: TrainConfig, block: SceneBlock, start: Path, first: int, outside: int, grows: bool
) -> TrainConfig:
    """The settings of a block's training. start: file of its first splats. first, outside: how many
    there are, and how many of them lie outside of its region. grows: else splats stay where they
    are, and as many."""
    config = of_length(config, block.steps, init=start, early_stop=False)
    if not grows:
        return config.changed(strategy="none", cap_max=0, means_lr=STILL, means_lr_final=STILL)
    most = max(block.cap + outside, first)
    return config.changed(means_lr=WARM * config.adam.means_lr, cap_max=most, hold_back=False)


def part_of(scene: Scene, block: SceneBlock) -> Scene:
    """The scene with the photographs of a block alone, none held out."""
    wanted = set(block.photographs)
    views = [view for view in scene.views if view.name in wanted]
    extent = extent_of([view.camera for view in views]) or scene.extent
    return replace(scene, views=views, train=[*range(len(views))], test=[], extent=extent)


def first_splats(
    start: Sequence[tuple[str, list[str]]], plan: BlockPlan, block: SceneBlock, scene: Scene
) -> Gaussians:
    """Splats of files that lie in the block's region or that its photographs may show; files are
    read in pieces.

    start: files, each with the names of blocks whose splats are not taken from it.
    """
    cameras, region = [view.camera for view in scene.views], block.region(plan.axes)
    boxes, found = {b.name: b.box for b in plan.blocks}, []
    for file, without in start:
        for piece in usable_pieces(open_splats(file), Counter()):
            kept = may_show(piece, cameras, region.inside(piece.means))
            for name in without:
                kept &= ~boxes[name].holds(plan.places(piece.means))
            found.append(piece[kept])
    return Gaussians.concatenate(found)


def _counts(pieces: Iterable[Gaussians], region: Region) -> tuple[int, int]:
    """How many splats there are, and how many of them lie outside of a region."""
    count = inside = 0
    for piece in pieces:
        count, inside = count + len(piece), inside + int(region.inside(piece.means).sum())
    return count, count - inside


def may_show(
    splats: Gaussians, cameras: Sequence[Camera], known: np.ndarray | None = None
) -> np.ndarray:
    """(N,) bool: whose mean lies in front of a camera and near its image, and those of `known`,
    (N,) bool. Cameras that look past a sphere around all means take no time."""
    means, found = splats.means, np.zeros(len(splats), bool) if known is None else known.copy()
    if found.all():
        return found
    centre = (means.min(axis=0) + means.max(axis=0)).astype(np.float64) / 2
    radius = float(np.linalg.norm(means - centre, axis=1).max())
    for camera in cameras:
        size, focal = np.array([camera.width, camera.height]), np.diag(camera.K)[:2]
        middle, half = (size / 2 - camera.K[:2, 2]) / focal, SLACK * size / 2 / focal
        R, T = camera.w2c[:3, :3], camera.w2c[:3, 3]
        x, ends = R @ centre + T, np.array([middle - half, middle + half])
        beyond = np.array([ends[0] * x[2] - x[:2], x[:2] - ends[1] * x[2]])
        if x[2] < -radius or (beyond > radius * np.sqrt(1 + ends**2)).any():
            continue
        left = np.flatnonzero(~found)
        at = means[left] @ R.T.astype(np.float32) + T
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(at[:, :2] / at[:, 2:] - middle)
        found[left[(at[:, 2] > 0) & (off <= half).all(axis=1)]] = True
    return found


def work(folder: Path, device: str | None, quiet: bool) -> int:
    """Trains a block, writes its outcome, and returns the exit code."""
    try:
        write_json(folder / OUTCOME, found := train_block(folder, device, quiet))
        grows = json.loads((folder / TASK).read_text(encoding="utf-8"))["grows"]
        if grows and found["status"] == "done":
            # needed no more, and six times as much as its splats take
            (folder / START).unlink(missing_ok=True)
            shutil.rmtree(folder / "ckpts", ignore_errors=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        write_json(folder / OUTCOME, {"status": "failed", "error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(as_child(work))
