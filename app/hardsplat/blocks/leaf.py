"""One block, trained by a process of its own: `python -m hardsplat.blocks.leaf FOLDER`.

FOLDER has task.json; the outcome is its block.json. It saves and ends when its standard input
closes, since its parent may be gone.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.blocks.plan import BlockPlan, SceneBlock, load_plan
from hardsplat.io.formats.checkpoint import newest
from hardsplat.io.scenes.scene import Scene, extent_of, load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.folder import write_json
from hardsplat.settings.presets import of_length
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.study.workers import as_child
from hardsplat.train.run.photographs import Loader
from hardsplat.train.run.trainer import train

TASK, OUTCOME, START = "task.json", "block.json", "start.ply"
WARM = 0.4  # of the rate of means: splats of the scaffold are near their places
SLACK = 1.3  # of an image's half size, within which the mean of a splat may show in it


def train_block(folder: Path, device: str | None, quiet: bool) -> dict[str, Any]:
    """Trains the block of a folder, or continues it, and returns what its block.json holds."""
    task = json.loads((folder / TASK).read_text(encoding="utf-8"))
    own = {"result_dir": folder, "device": device, "quiet": quiet}
    config = TrainConfig.of(**task["settings"] | own)
    s = config.scene
    scene = load_scene(scene_folder(s.data_dir), undistort=s.undistort, **s.reading)
    names = [scene.views[i].name for i in scene.train]
    plan = load_plan(Path(task["plan"]), names, scene.name)
    block = next(b for b in plan.blocks if b.name == task["block"])
    scene = part_of(scene, block)
    resume = newest(folder) is not None
    first = _start(Path(task["scaffold"]), scene, plan, block, folder / START, resume)
    config = settings_of(config, block, folder / START, *first).changed(resume=resume)
    metrics = train(config, photographs=Loader(scene), region=block.region(plan.axes))
    seconds = metrics["seconds"]["training"]
    return {"status": "done", "splats": metrics["splats"], "seconds": seconds, "outside": first[1]}


def settings_of(
    config: TrainConfig, block: SceneBlock, start: Path, first: int, outside: int
) -> TrainConfig:
    """The settings of a block's training. start: file of its first splats. first, outside: how many
    there are, and how many of them lie outside of its region."""
    config = of_length(config, block.steps)
    return config.changed(
        init=start,
        cap_max=max(block.cap + outside, first),
        max_epochs=0,
        overfit_check=0,
        length_check=0,
        means_lr=WARM * config.adam.means_lr,
    )


def part_of(scene: Scene, block: SceneBlock) -> Scene:
    """The scene with the photographs of a block alone, none held out."""
    wanted = set(block.photographs)
    views = [view for view in scene.views if view.name in wanted]
    extent, train = extent_of(views) or scene.extent, list(range(len(views)))
    return replace(scene, views=views, train=train, test=[], extent=extent)


def _start(
    scaffold: Path, scene: Scene, plan: BlockPlan, block: SceneBlock, path: Path, kept: bool
) -> tuple[int, int]:
    """Writes the scaffold's splats that the block's photographs may show, unless they were written;
    returns how many there are, and how many of them lie outside of the region."""
    if not (kept and path.is_file()):
        splats = load_splats(scaffold)
        inside = block.region(plan.axes).inside(splats.means)
        save_splats(path, splats[inside | may_show(splats, [v.camera for v in scene.views])])
    splats = load_splats(path)
    return len(splats), len(splats) - int(block.region(plan.axes).inside(splats.means).sum())


def may_show(splats: Gaussians, cameras: list[Camera]) -> np.ndarray:
    """(N,) bool: whose mean lies in front of a camera and near its image."""
    found = np.zeros(len(splats), bool)
    for camera in cameras:
        at = splats.means @ camera.w2c[:3, :3].T.astype(np.float32) + camera.w2c[:3, 3]
        size = np.array([camera.width, camera.height])
        half = size / 2 / np.diag(camera.K)[:2]
        centre = (size / 2 - camera.K[:2, 2]) / np.diag(camera.K)[:2]
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(at[:, :2] / at[:, 2:] - centre)
        found |= (at[:, 2] > 0) & (off <= SLACK * half).all(axis=1)
    return found


def work(folder: Path, device: str | None, quiet: bool) -> int:
    """Trains a block, writes its outcome, and returns the exit code."""
    try:
        write_json(folder / OUTCOME, train_block(folder, device, quiet))
    except UserError as error:
        write_json(folder / OUTCOME, {"status": "failed", "error": str(error)})
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(as_child(work))
