"""`hardsplat train --blocks`: a scaffold of the whole scene, a plan, blocks on all devices, and one
result.

The result folder: scaffold/ (a run folder), plan.json, plan.png, blocks/NAME/ (run folders),
tiles/, tiles.json, and what any run leaves: splats.ply, config.toml, metrics.json.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.files import write_json
from hardsplat.base.lock import FolderLock
from hardsplat.blocks.checks import Answer, check_workers
from hardsplat.blocks.join import SplatSource, join, tile_of
from hardsplat.blocks.plan import NAME, PICTURE, BlockPlan, SceneBlock, block_of, load_plan
from hardsplat.blocks.planner import FILLED, Sizes, Wanted, make_plan
from hardsplat.blocks.polish import Polished, at_seams, polish_whole, seams_of, sources_of
from hardsplat.blocks.scaffold import Scaffold, train_scaffold
from hardsplat.blocks.tasks import follow, outcome_of, train_tasks, write_task
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.results.folder import (
    archive_run,
    check_folder,
    folder_of,
    make_folder,
    resume_command,
)
from hardsplat.settings.presets import SAVED_NAME, save_config
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.train import budget_for, evaluate_run, size_notes

MOST_SPLATS = 10**10
UNPOLISHED = "unpolished"  # folder of the joined scene until it is polished
EPOCHS = 120  # of a photograph in a scene of many, whose blocks are trained without asking any


def train_blocks(config: TrainConfig) -> dict:
    """Trains a scene in blocks, continuing what an earlier command left in the folder, and returns
    what metrics.json holds. Raises UserError for bad input, and where blocks failed."""
    started, training = time.perf_counter(), BlockTraining(_checked(config))
    with training.held():
        plan = training.planned()
        planned = time.perf_counter()
        metrics = training.train(plan)
        ended = {"plan": planned - started, "whole": time.perf_counter() - started}
        metrics["seconds"] |= ended
        write_json(training.folder / "metrics.json", metrics)
    tqdm.write(f"result: {training.folder}")
    tqdm.write(f"look around in it: hardsplat view {shlex.quote(str(training.folder))}")
    return metrics


def plan_scene(config: TrainConfig) -> Path:
    """`hardsplat plan`: plans the training of a scene in the result folder; the plan's file."""
    training = BlockTraining(_checked(config))
    with training.held():
        training.planned()
    return training.folder / NAME


def _checked(config: TrainConfig) -> TrainConfig:
    """The settings. Raises UserError for those that blocks cannot have."""
    c = config
    Wanted(str(c.blocks.blocks))
    for wrong, flag in (
        (c.gradient.gradient == "stochastic", "--gradient stochastic"),
        (c.densify.strategy != "budget", f"--strategy {c.densify.strategy}"),
        (c.densify.budget.prune_to < 1, f"--prune-to {c.densify.budget.prune_to}"),
        (c.depth.depth_lambda, f"--depth-lambda {c.depth.depth_lambda}"),
        (c.run.ckpt, f"--ckpt {c.run.ckpt}"),
    ):
        if wrong:
            raise UserError(f"--blocks cannot be combined with {flag}: leave out one of the two")
    return c


@dataclass(frozen=True)
class BlockTraining:
    """A training in blocks. config: as of `_checked`."""

    config: TrainConfig

    @cached_property
    def folder(self) -> Path:
        """The result folder."""
        return folder_of(self.config.run, self.config.scene)

    @cached_property
    def given(self) -> Scene:
        """The scene as its files have it."""
        s = self.config.scene
        return load_scene(scene_folder(s.data_dir), undistort=s.undistort, **s.reading)

    @cached_property
    def scaffold(self) -> Scaffold:
        """The scaffold, once it is trained."""
        return Scaffold.of(self.folder / "scaffold")

    @cached_property
    def settings(self) -> TrainConfig:
        """As blocks have them, once the scaffold is trained."""
        return self.scaffold.settings(self.config)

    @cached_property
    def scene(self) -> Scene:
        """The scene with the cameras that the scaffold found."""
        return self.scaffold.scene(self.given)

    @property
    def steps(self) -> int:
        """Steps of a training of the whole scene in one piece. Where the user does not say how long
        it is, every photograph has EPOCHS steps at least."""
        run = self.config.run
        least = EPOCHS * len(self.given.train) if run.early_stop else 0
        return max(run.max_steps, least)

    @property
    def polish_steps(self) -> int:
        """Steps of the polish of a whole scene: never more than those of its training."""
        return min(self.config.blocks.polish_steps, self.steps)

    @cached_property
    def budget(self) -> int:
        """Splats of that training, on a device that holds any number."""
        cameras = [self.given.views[i].camera for i in self.given.train]
        found = max(budget_for(cameras, most=MOST_SPLATS), len(self.given.points))
        return self.config.densify.cap_max or found

    @cached_property
    def workers(self) -> dict[str, Answer]:
        """What trains blocks: workers of the cluster, or devices of this machine. Raises UserError
        where one of them cannot."""
        files = [view.path for view in self.given.views]
        return check_workers(self.config, self.folder, files, self.budget)

    @property
    def smallest(self) -> int:
        """Splats that the smallest device holds in training."""
        return min(answer.splats for answer in self.workers.values())

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process uses the result folder meanwhile; Ctrl-C prints how to continue."""
        check_folder(self.folder)
        make_folder(self.folder)
        lock = FolderLock(self.folder)
        try:
            yield
        except KeyboardInterrupt:
            again = resume_command(self.folder)
            tqdm.write(f"interrupted: what was trained is kept; continue with {again}")
            raise
        finally:
            lock.release()

    def planned(self) -> BlockPlan:
        """The plan that is in the folder, or else a new one."""
        file = self.folder / NAME
        if file.is_file():
            names = [self.given.views[i].name for i in self.given.train]
            plan = load_plan(file, names, self.given.name)
            tqdm.write(f"note: by the plan in {file}")
        else:
            smallest = self.smallest
            if earlier := archive_run(self.folder):
                tqdm.write(f"note: the earlier run in {self.folder} is now in {earlier}")
            self._save_config()
            plan = self._plan(smallest)
        self._save_config(**self.scaffold.decided(self.config))
        if not self.config.run.quiet:
            tqdm.write("\n".join(plan.lines(self.polish_steps)))
        return plan

    def _save_config(self, **own) -> None:
        save_config({**self.config.flat(), "resume": False, **own}, self.folder / SAVED_NAME)

    def _plan(self, smallest: int) -> BlockPlan:
        """A new plan, from a scaffold that is trained unless there is one. smallest: splats that a
        device holds."""
        config, steps, budget = self.config, self.steps, self.budget
        for note in size_notes(config, self.given):
            tqdm.write(f"note: {note}")
        train_scaffold(config, self.given, self.folder / "scaffold", steps, budget)
        scaffold, wanted = self.scaffold, Wanted(str(config.blocks.blocks))
        sizes = Sizes(budget, steps, smallest, scaffold.step_seconds)
        near, device = self.settings.scene.near_plane, config.run.device
        plan = make_plan(self.scene, scaffold.splats, wanted, sizes, near, device)
        plan.save(self.folder / NAME)
        at = np.array([self.scene.views[i].camera.position for i in self.scene.train])
        plan.draw(load_splats(scaffold.splats).means, at, self.folder / PICTURE)
        return plan

    def train(self, plan: BlockPlan) -> dict:
        """Trains what is left of the blocks, joins and measures them; returns what metrics.json
        holds."""
        folder, config, smallest = self.folder, self.config, self.smallest
        tqdm.write(f"note: all blocks share {self.scaffold}; none holds validation photographs")
        times = [time.perf_counter()]
        plan = self._train_blocks(plan)
        times.append(time.perf_counter())
        files = [self._home(block) / "splats.ply" for block in plan.blocks]
        # what is not polished yet passes for no result
        joined = folder / UNPOLISHED if self.polish_steps else folder
        splats = join(plan, sources_of(plan, files, []), joined)
        times.append(time.perf_counter())
        polished = Polished("no", [], 0)
        if self.polish_steps:
            polished = self._polish(plan, files, joined, splats <= FILLED * smallest)
            splats = join(plan, polished.sources, folder)
            shutil.rmtree(joined, ignore_errors=True)
        times.append(time.perf_counter())
        seconds = dict(zip(("blocks", "join", "polish"), np.diff(times).tolist()))
        self.scaffold.leave(folder, self.settings)
        blocks = {block.name: outcome_of(self._home(block)) for block in plan.blocks}
        steps = sum(blocks[b.name].get("steps", b.steps) for b in plan.blocks) + polished.steps
        metrics: dict = dict(steps=steps, splats=splats, blocks=blocks, seconds=seconds)
        metrics |= dict(polished=polished.what, polish_steps=polished.steps)
        if self.given.test:
            table = evaluate_run(str(folder), device=config.run.device)
            views, near = table.pop("views"), self.settings.scene.near_plane
            metrics["evaluations"] = [{"step": steps, **table}]
            scaffold = self.scaffold.splats
            device = config.run.device
            metrics["seams"] = at_seams(plan, self.scene, scaffold, views, near, device)
        return metrics

    def _home(self, block: SceneBlock) -> Path:
        return self.folder / "blocks" / block.name

    def _shared(self) -> dict:
        """What the tasks of all blocks have in common."""
        config = self.settings.changed(
            blocks=None,
            result_dir=None,
            device=None,
            save_steps=(),
            eval_steps=(),
            resume=False,
            quiet=False,
        )
        return {
            "plan": str((self.folder / NAME).resolve()),
            "scaffold": str(self.scaffold.folder.resolve()),
            "settings": {n: str(v) if isinstance(v, Path) else v for n, v in config.flat().items()},
        }

    def _train_blocks(self, plan: BlockPlan) -> BlockPlan:
        """Trains what is left, also of blocks that were split on a full device; the plan of what
        there is. Raises UserError where one failed, once the others have ended."""
        home, shared, known = self.folder / "blocks", self._shared(), BlockPlan("", plan.axes, ())
        while known.blocks != (plan := self._with_halves(plan)).blocks:
            known, tasks = plan, []
            for block in plan.blocks:
                start = self.folder / block.start if block.start else self.scaffold.splats
                tasks.append(write_task(home, block, [(str(start.resolve()), ())], True, shared))
            if any(outcome_of(task).get("status") != "done" for task in tasks):
                archive_run(self.folder / "polish")  # of other blocks
            if failed := self._train_tasks(plan.blocks, tasks):
                what = f"{len(failed)} of {len(tasks)} blocks failed, first {(one := min(failed))}"
                again = resume_command(self.folder)
                raise UserError(f"{what}: {failed[one]}; the others are kept, {again} continues")
        return plan

    def _with_halves(self, plan: BlockPlan) -> BlockPlan:
        """The plan, saved, with halves instead of blocks that were split."""
        for block in plan.blocks:
            if (outcome := outcome_of(self._home(block))).get("status") == "split":
                halves = [block_of(row) for row in outcome["blocks"]]
                plan = plan.parted(block.name, halves)
                plan.save(self.folder / NAME)
                names = " and ".join(half.name for half in halves)
                full = f"{block.name} fills its device at {outcome['splats']:,} splats"
                tqdm.write(f"note: {full}: it continues as {names}")
        return plan

    def _train_tasks(self, blocks: Sequence[SceneBlock], tasks: Sequence[Path]) -> dict[str, str]:
        """Trains those that are not done, and returns why some failed, by name."""
        todo = [task for task in tasks if outcome_of(task).get("status") != "done"]
        if len(todo) < len(tasks):
            tqdm.write(f"note: {len(tasks) - len(todo)} of {len(tasks)} blocks were trained before")
        with follow(blocks, tasks, self.config.run.quiet):
            return train_tasks(todo, self.config.blocks)

    def _polish(self, plan: BlockPlan, files: Sequence[Path], joined: Path, fits: bool) -> Polished:
        """Polishes joined splats. A seam that fails stays as it was. files: of trained blocks.
        joined: folder of what they are joined to. fits: that may fit a device."""
        folder, steps = self.folder, self.polish_steps
        if fits:
            try:
                whole = joined / "splats.ply"
                file = polish_whole(self.config, self.scaffold, self.scene, folder, whole, steps)
                return Polished("whole", [[SplatSource(file)]] * len(files), steps)
            except OutOfMemory as error:
                tqdm.write(f"note: {error}")
        seams = seams_of(plan, steps, len(self.scene.train))
        tqdm.write(
            f"note: the scene fits no device as a whole: its {len(seams)} seams are polished"
        )
        file_of = {b.name: str(f.resolve()) for b, f in zip(plan.blocks, files)}
        tile = {b.name: str(tile_of(joined, b.name).resolve()) for b in plan.blocks}
        shared, tasks = self._shared(), []
        for seam in seams:
            after = [outcome_of(folder / "blocks" / name) for name in (seam.first, seam.second)]
            start, own = seam.start(file_of, tile), shared | {"after": after}
            tasks.append(write_task(folder / "seams", seam.belt, start, False, own))
        self._train_tasks([seam.belt for seam in seams], tasks)
        pairs = [(seam, task) for seam, task in zip(seams, tasks) if outcome_of(task).get("splats")]
        done = [(seam, task / "splats.ply") for seam, task in pairs]
        made = sum(outcome_of(task).get("steps", seam.belt.steps) for seam, task in pairs)
        return Polished("seams", sources_of(plan, files, done), made)
