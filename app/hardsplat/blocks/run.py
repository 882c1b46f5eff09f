"""`hardsplat train --blocks`: a scaffold of the whole scene, a plan, blocks on all devices, and one
result.

The result folder: scaffold/ (a run folder), plan.json, plan.png, blocks/NAME/ (run folders),
tiles/, tiles.json, and what any run leaves: splats.ply, config.toml, metrics.json.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.lock import FolderLock
from hardsplat.blocks.join import join
from hardsplat.blocks.leaf import OUTCOME, TASK
from hardsplat.blocks.picture import NAME as PICTURE
from hardsplat.blocks.picture import draw_plan
from hardsplat.blocks.plan import NAME, BlockPlan, load_plan
from hardsplat.blocks.planner import Sizes, Wanted, make_plan
from hardsplat.blocks.seams import at_seams
from hardsplat.blocks.tasks import follow, scheduler_of, train_on_workers
from hardsplat.contract.footprint import most_splats, out_of_core
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.raster.backends import training_needs
from hardsplat.raster.core.sinks import moments_of
from hardsplat.results.folder import archive_run, check_folder, folder_of, make_folder, write_json
from hardsplat.settings.presets import SAVED_NAME, for_photographs, of_length, save_config
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.study.workers import check_cluster
from hardsplat.train.job.memory import SHOWN
from hardsplat.train.measure.command import evaluate_run
from hardsplat.train.run.trainer import train
from hardsplat.train.strategies import STRATEGIES

SCAFFOLD_STEPS, SCAFFOLD_SPLATS = 7_000, (20_000, 2_000_000)
SCAFFOLD_SHARE = 3  # of the splats of the whole scene, one in so many
SMALLEST_SIDE = 400  # px of photographs that are not made smaller for the scaffold


def train_blocks(config: TrainConfig) -> dict:
    """Trains a scene in blocks, continuing what an earlier command left in the folder, and returns
    what metrics.json holds. Raises UserError for bad input, and where blocks failed."""
    started, training = time.perf_counter(), BlockTraining(_shared(config))
    if scheduler := scheduler_of(config.blocks):
        check_cluster(scheduler)
    with training.held():
        metrics = training.train(training.planned())
        metrics["seconds"]["whole"] = time.perf_counter() - started
        write_json(training.folder / "metrics.json", metrics)
    return metrics


def plan_scene(config: TrainConfig) -> Path:
    """`hardsplat plan`: plans the training of a scene in the result folder; the plan's file."""
    training = BlockTraining(_shared(config))
    with training.held():
        training.planned()
    return training.folder / NAME


def _shared(config: TrainConfig) -> TrainConfig:
    """The settings that scaffold and blocks have in common, without exposures. Raises UserError for
    settings that blocks cannot have."""
    c = config
    Wanted(str(c.blocks.blocks))
    for wrong, flag in (
        (c.densify.strategy != "budget", f"--strategy {c.densify.strategy}"),
        (c.exposure.exposure not in ("none", "auto"), f"--exposure {c.exposure.exposure}"),
        (c.poses.pose_opt, "--pose-opt"),
        (c.intrinsics.intrinsics_opt, "--intrinsics-opt"),
        (c.gradient.gradient == "stochastic", "--gradient stochastic"),
        (c.densify.budget.prune_to < 1, f"--prune-to {c.densify.budget.prune_to}"),
        (c.depth.depth_lambda, f"--depth-lambda {c.depth.depth_lambda}"),
        (c.run.ckpt, f"--ckpt {c.run.ckpt}"),
    ):
        if wrong:
            raise UserError(f"--blocks cannot be combined with {flag}: leave out one of the two")
    return c.changed(exposure="none")


@dataclass(frozen=True)
class BlockTraining:
    """A training in blocks. config: as of `_shared`."""

    config: TrainConfig

    @cached_property
    def folder(self) -> Path:
        """The result folder."""
        return folder_of(self.config.run, self.config.scene)

    @cached_property
    def scene(self) -> Scene:
        s = self.config.scene
        return load_scene(scene_folder(s.data_dir), undistort=s.undistort, **s.reading)

    @property
    def scaffold(self) -> Path:
        """The file of the scaffold's splats."""
        return self.folder / "scaffold" / "splats.ply"

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process uses the result folder meanwhile."""
        check_folder(self.folder)
        make_folder(self.folder)
        lock = FolderLock(self.folder)
        try:
            yield
        finally:
            lock.release()

    def planned(self) -> BlockPlan:
        """The plan that is in the folder, or else a new one."""
        file = self.folder / NAME
        if file.is_file():
            names = [self.scene.views[i].name for i in self.scene.train]
            plan = load_plan(file, names, self.scene.name)
            tqdm.write(f"note: by the plan in {file}")
        else:
            if earlier := archive_run(self.folder):
                tqdm.write(f"note: the earlier run in {self.folder} is now in {earlier}")
            plan = self._plan()
        save_config({**self.config.flat(), "resume": False}, self.folder / SAVED_NAME)
        if not self.config.run.quiet:
            _print_plan(plan)
        return plan

    def train(self, plan: BlockPlan) -> dict:
        """Trains what is left of the blocks, joins and measures them; returns what metrics.json
        holds."""
        config, folder = self.config, self.folder
        tasks = [self._task(block.name) for block in plan.blocks]
        todo = [task for task in tasks if _outcome(task).get("status") != "done"]
        if len(todo) < len(tasks):
            tqdm.write(f"note: {len(tasks) - len(todo)} of {len(tasks)} blocks were trained before")
        began, failed = time.perf_counter(), {}
        with follow(plan, tasks, config.run.quiet):
            for task, error in train_on_workers(todo, config.blocks):
                if error:
                    failed[task.name] = error
                    tqdm.write(f"{task.name} failed: {error}")
        if failed:
            first, again = min(failed), f"hardsplat train {shlex.quote(str(folder))} --resume"
            what = f"{len(failed)} of {len(tasks)} blocks failed, first {first}: {failed[first]}"
            raise UserError(f"{what}; the others are kept, {again} continues")
        trained = time.perf_counter()
        splats = join(plan, [task / "splats.ply" for task in tasks], folder)
        if config.blocks.polish_steps and (polished := self._polish()):
            splats = join(plan, [polished] * len(plan.blocks), folder)
        seconds = {"blocks": trained - began, "join": time.perf_counter() - trained}
        steps, blocks = sum(b.steps for b in plan.blocks), {t.name: _outcome(t) for t in tasks}
        metrics: dict = dict(steps=steps, splats=splats, blocks=blocks, seconds=seconds)
        if self.scene.test:
            table = evaluate_run(str(folder), device=config.run.device)
            views, near = table.pop("views"), config.scene.near_plane
            metrics["evaluations"] = [{"step": steps, **table}]
            how = near, config.run.device
            metrics["seams"] = at_seams(plan, self.scene, self.scaffold, views, *how)
        return metrics

    def _plan(self) -> BlockPlan:
        """A new plan, from a scaffold that is trained unless there is one."""
        config, cameras = self.config, [self.scene.views[i].camera for i in self.scene.train]
        sized = for_photographs(config, len(cameras))
        budget = STRATEGIES["budget"].budget(sized.densify, cameras, len(self.scene.points))
        seconds = self._train_scaffold(sized.run.max_steps, budget)
        device = open_device(config.run.device)
        moments = moments_of(device, config.adam.moments)
        needs = training_needs(
            "tiled", config.model.sh_degree, moments, statistics=("score_stats",)
        )
        if config.run.out_of_core == "on":
            needs = out_of_core(needs, SHOWN)
        holds = most_splats(needs, device.memory_bytes, device.max_buffer, device.max_allocation)
        device.close()
        sizes, number = Sizes(budget, sized.run.max_steps, holds, seconds), config.blocks.blocks
        how = config.scene.near_plane, config.run.device
        plan = make_plan(self.scene, self.scaffold, Wanted(str(number)), sizes, *how)
        plan.save(self.folder / NAME)
        positions = np.array([camera.position for camera in cameras])
        draw_plan(plan, load_splats(self.scaffold).means, positions, self.folder / PICTURE)
        return plan

    def _train_scaffold(self, steps: int, budget: int) -> float:
        """Trains the whole scene coarsely, unless that was done; returns the seconds of a step.
        steps, budget: of a training in one piece."""
        config, folder = self.config, self.scaffold.parent
        metrics = folder / "metrics.json"
        if not metrics.is_file():
            smallest = min(min(v.camera.width, v.camera.height) for v in self.scene.views)
            factor = 2 if smallest >= 2 * SMALLEST_SIDE else 1
            steps = min(SCAFFOLD_STEPS, steps)
            most = int(np.clip(budget // SCAFFOLD_SHARE, *SCAFFOLD_SPLATS))
            own: dict = dict(result_dir=folder, resume=(folder / "ckpts").is_dir(), blocks=None)
            own |= dict(data_factor=factor * config.scene.data_factor, cap_max=min(budget, most))
            own |= dict(sh_degree=min(1, config.model.sh_degree), max_epochs=0)
            own |= dict(save_steps=(steps,), eval_steps=(steps,))
            train(of_length(config, steps).changed(**own))
        table = json.loads(metrics.read_text())
        return table["seconds"]["training"] / max(table["steps"], 1)

    def _task(self, name: str) -> Path:
        """The folder of a block, with its task.json."""
        path = (self.folder / "blocks" / name).resolve()
        make_folder(path)
        own: dict = dict(blocks=None, result_dir=None, resume=False, device=None, quiet=False)
        settings = self.config.changed(**own, save_steps=(), eval_steps=()).flat()
        table = {
            "block": name,
            "plan": str((self.folder / NAME).resolve()),
            "scaffold": str(self.scaffold.resolve()),
            "settings": {n: str(v) if isinstance(v, Path) else v for n, v in settings.items()},
        }
        write_json(path / TASK, table)
        return path

    def _polish(self) -> Path | None:
        """The joined splats after some steps over all photographs; None, with a note, where they do
        not fit the device."""
        config, polished = self.config, self.folder / "polish"
        own: dict = dict(result_dir=polished, resume=(polished / "ckpts").is_dir(), blocks=None)
        own |= dict(init=self.folder / "splats.ply", strategy="none", max_epochs=0)
        own |= dict(means_lr=config.adam.means_lr_final)
        try:
            if not (polished / "metrics.json").is_file():  # else it was polished before
                train(of_length(config, config.blocks.polish_steps).changed(**own))
        except OutOfMemory as error:
            tqdm.write(f"note: the joined scene is not polished: {error}")
            return None
        return polished / "splats.ply"


def _print_plan(plan: BlockPlan) -> None:
    total = sum(block.seconds for block in plan.blocks)
    tqdm.write(f"{len(plan.blocks)} blocks, about {total:.0f} s of training on one device:")
    for block in plan.blocks:
        tqdm.write(
            f"  {block.name}: {len(block.photographs)} photographs, {block.cap} splats, "
            f"{block.steps} steps"
        )


def _outcome(task: Path) -> dict:
    try:
        return json.loads((task / OUTCOME).read_text())
    except (OSError, ValueError):
        return {}
