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
from hardsplat.contract.footprint import most_splats
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.raster.backends import training_needs
from hardsplat.raster.core.sinks import moments_of
from hardsplat.results.folder import check_folder, folder_of, make_folder, write_json
from hardsplat.settings.presets import SAVED_NAME, for_photographs, of_length, save_config
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.study.workers import check_cluster
from hardsplat.train.measure.command import evaluate_run
from hardsplat.train.run.trainer import train
from hardsplat.train.strategies import STRATEGIES

SCAFFOLD_STEPS, SCAFFOLD_SPLATS = 7_000, (20_000, 2_000_000)
SCAFFOLD_SHARE = 3  # of the splats of the whole scene, one in so many
SMALLEST_SIDE = 400  # px of photographs that are not made smaller for the scaffold


def train_blocks(config: TrainConfig) -> dict:
    """Trains a scene in blocks, continuing what an earlier command left in the folder, and returns
    what metrics.json holds. Raises UserError for bad input, and where blocks failed."""
    started, config = time.perf_counter(), _shared(config)
    if scheduler := scheduler_of(config.blocks):
        check_cluster(scheduler)
    with _held(config) as folder:
        scene, plan = _planned(config, folder)
        return _train(config, scene, plan, folder, started)


def plan_scene(config: TrainConfig) -> Path:
    """`hardsplat plan`: plans the training of a scene in the result folder; the plan's file."""
    config = _shared(config)
    with _held(config) as folder:
        _planned(config, folder)
        return folder / NAME


@contextmanager
def _held(config: TrainConfig) -> Iterator[Path]:
    """The result folder, which no other process uses meanwhile."""
    folder = folder_of(config.run, config.scene)
    check_folder(folder)
    make_folder(folder)
    lock = FolderLock(folder)
    try:
        yield folder
    finally:
        lock.release()


def _planned(config: TrainConfig, folder: Path) -> tuple[Scene, BlockPlan]:
    """The plan that is in the folder, or else a new one."""
    s = config.scene
    scene = load_scene(
        scene_folder(s.data_dir), s.data_factor, s.test_every, s.mask_mode, s.undistort
    )
    if (folder / NAME).is_file():
        names = [scene.views[i].name for i in scene.train]
        plan = load_plan(folder / NAME, names, scene.name)
        tqdm.write(f"note: by the plan in {folder / NAME}")
    else:
        plan = _plan(config, scene, folder)
    save_config({**config.flat(), "resume": False}, folder / SAVED_NAME)
    if not config.run.quiet:
        _print_plan(plan)
    return scene, plan


def _train(
    config: TrainConfig, scene: Scene, plan: BlockPlan, folder: Path, started: float
) -> dict:
    tasks = [_task(config, plan, block.name, folder) for block in plan.blocks]
    todo = [task for task in tasks if _outcome(task).get("status") != "done"]
    if len(todo) < len(tasks):
        tqdm.write(f"note: {len(tasks) - len(todo)} of {len(tasks)} blocks were trained before")
    trained = time.perf_counter()
    failed = {}
    with follow(plan, tasks, config.run.quiet):
        for task, error in train_on_workers(todo, config.blocks):
            if error:
                failed[task.name] = error
                tqdm.write(f"{task.name} failed: {error}")
    if failed:
        again = f"hardsplat train {shlex.quote(str(folder))} --resume"
        raise UserError(
            f"{len(failed)} of {len(tasks)} blocks failed, first {min(failed)}: "
            f"{failed[min(failed)]}; the others are kept, {again} continues"
        )
    outcomes = [_outcome(task) for task in tasks]
    joined = time.perf_counter()
    splats = join(plan, [task / "splats.ply" for task in tasks], folder)
    if config.blocks.polish_steps and (polished := _polish(config, folder)):
        splats = join(plan, [polished] * len(plan.blocks), folder)
    measured = time.perf_counter()
    metrics: dict = {
        "steps": sum(block.steps for block in plan.blocks),
        "splats": splats,
        "blocks": {task.name: outcome for task, outcome in zip(tasks, outcomes)},
        "seconds": {"blocks": joined - trained, "join": measured - joined},
    }
    if scene.test:
        table = evaluate_run(str(folder), device=config.run.device)
        views = table.pop("views")
        metrics["evaluations"] = [{"step": metrics["steps"], **table}]
        metrics["seams"] = at_seams(plan, scene, folder / "scaffold" / "splats.ply", config, views)
    metrics["seconds"]["whole"] = time.perf_counter() - started
    write_json(folder / "metrics.json", metrics)
    return metrics


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


def _plan(config: TrainConfig, scene: Scene, folder: Path) -> BlockPlan:
    cameras = [scene.views[i].camera for i in scene.train]
    sized = for_photographs(config, len(cameras))
    budget = STRATEGIES["budget"].budget(sized.densify, cameras, len(scene.points))
    seconds = _scaffold(sized, scene, folder / "scaffold", budget)
    device = open_device(config.run.device)
    needs = training_needs(
        "tiled",
        config.model.sh_degree,
        moments_of(device, config.adam.moments),
        statistics=("score_stats",),
    )
    holds = most_splats(needs, device.memory_bytes, device.max_buffer, device.max_allocation)
    device.close()
    file = folder / "scaffold" / "splats.ply"
    sizes = Sizes(budget, sized.run.max_steps, holds, seconds)
    plan = make_plan(
        scene,
        file,
        Wanted(str(config.blocks.blocks)),
        sizes,
        config.scene.near_plane,
        config.run.device,
    )
    plan.save(folder / NAME)
    draw_plan(
        plan, load_splats(file).means, np.array([c.position for c in cameras]), folder / PICTURE
    )
    return plan


def _scaffold(config: TrainConfig, scene: Scene, folder: Path, budget: int) -> float:
    """Trains the whole scene coarsely, unless that was done; returns the seconds of a step."""
    metrics = folder / "metrics.json"
    if not metrics.is_file():
        smallest = min(min(v.camera.width, v.camera.height) for v in scene.views)
        factor = 2 if smallest >= 2 * SMALLEST_SIDE else 1
        short = of_length(config, min(SCAFFOLD_STEPS, config.run.max_steps))
        train(
            short.changed(
                result_dir=folder,
                data_factor=factor * config.scene.data_factor,
                sh_degree=min(1, config.model.sh_degree),
                cap_max=min(budget, int(np.clip(budget // SCAFFOLD_SHARE, *SCAFFOLD_SPLATS))),
                max_epochs=0,
                blocks=None,
                resume=(folder / "ckpts").is_dir(),
                save_steps=(short.run.max_steps,),
                eval_steps=(short.run.max_steps,),
            )
        )
    table = json.loads(metrics.read_text())
    return table["seconds"]["training"] / max(table["steps"], 1)


def _print_plan(plan: BlockPlan) -> None:
    total = sum(block.seconds for block in plan.blocks)
    tqdm.write(f"{len(plan.blocks)} blocks, about {total:.0f} s of training on one device:")
    for block in plan.blocks:
        tqdm.write(
            f"  {block.name}: {len(block.photographs)} photographs, {block.cap} splats, "
            f"{block.steps} steps"
        )


def _task(config: TrainConfig, plan: BlockPlan, name: str, folder: Path) -> Path:
    """The folder of a block, with its task.json."""
    path = (folder / "blocks" / name).resolve()
    make_folder(path)
    settings = config.changed(
        blocks=None,
        result_dir=None,
        resume=False,
        device=None,
        quiet=False,
        save_steps=(),
        eval_steps=(),
    ).flat()
    write_json(
        path / TASK,
        {
            "block": name,
            "plan": str((folder / NAME).resolve()),
            "scaffold": str((folder / "scaffold" / "splats.ply").resolve()),
            "settings": {n: str(v) if isinstance(v, Path) else v for n, v in settings.items()},
        },
    )
    return path


def _outcome(task: Path) -> dict:
    try:
        return json.loads((task / OUTCOME).read_text())
    except (OSError, ValueError):
        return {}


def _polish(config: TrainConfig, folder: Path) -> Path | None:
    """The joined splats after some steps over all photographs; None, with a note, where they do not
    fit the device."""
    steps, polished = config.blocks.polish_steps, folder / "polish"
    settings = of_length(config, steps).changed(
        blocks=None,
        result_dir=polished,
        init=folder / "splats.ply",
        strategy="none",
        max_epochs=0,
        means_lr=config.adam.means_lr_final,
        resume=(polished / "ckpts").is_dir(),
    )
    try:
        if not (polished / "metrics.json").is_file():  # else it was polished before
            train(settings)
    except OutOfMemory as error:
        tqdm.write(f"note: the joined scene is not polished: {error}")
        return None
    return polished / "splats.ply"
