"""Steps over a joined scene: over all photographs where it fits one device, or along each seam; and
how held-out views that look across a border compare with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hardsplat.blocks.cut import BlockBox
from hardsplat.blocks.join import SplatSource
from hardsplat.blocks.plan import MARGIN, BlockPlan, SceneBlock
from hardsplat.blocks.planner import shares
from hardsplat.blocks.scaffold import Scaffold
from hardsplat.export.contribution import SeenSplats
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import load_splats
from hardsplat.results.folder import archive_run
from hardsplat.settings.presets import SAVED_NAME, config_from_file, of_length
from hardsplat.settings.train import TrainConfig

MOSTLY = 0.9  # share of what a view shows, above which it looks into one block alone


@dataclass(frozen=True)
class SceneSeam:
    """A belt along the border between two blocks, trained like a block that does not grow. first,
    second: names of those blocks."""

    belt: SceneBlock
    first: str
    second: str

    def start(self, file: dict[str, str], tile: dict[str, str]) -> list[tuple[str, list[str]]]:
        """Where its splats come from, see first_splats: the tiles of both blocks, and around them
        what the first one was trained with. file, tile: by name of a block."""
        both = [self.first, self.second]
        return [*((tile[name], []) for name in both), (file[self.first], both)]


class Polished(NamedTuple):
    """what: "whole", "seams" or "no". sources: where the splats of each block come from then.
    steps: that it took."""

    what: str
    sources: list[list[SplatSource]]
    steps: int


def seams_of(plan: BlockPlan, steps: int, photographs: int) -> list[SceneSeam]:
    """The seams of a plan, with the photographs that both of their blocks have. steps: of a polish
    of the whole, which has so many photographs."""
    found: list[SceneSeam] = []
    for i, a in enumerate(plan.blocks):
        for b in plan.blocks[i + 1 :]:
            belt, other = _belt(a, b) or _belt(b, a), set(b.photographs)
            if belt and (both := tuple(name for name in a.photographs if name in other)):
                own = max(1, round(steps * len(both) / photographs))
                block = SceneBlock(f"seam-{len(found):03d}", belt, both, 1, own)
                found.append(SceneSeam(block, a.name, b.name))
    return found


def _belt(a: SceneBlock, b: SceneBlock) -> BlockBox | None:
    """The belt along the border where b begins at the end of a; None where it does not."""
    for axis in (0, 1):
        low, high = np.maximum(a.box.low, b.box.low), np.minimum(a.box.high, b.box.high)
        if a.box.high[axis] != b.box.low[axis] or not low[1 - axis] < high[1 - axis]:
            continue
        low[axis] -= MARGIN * a.box.size[axis]
        high[axis] += MARGIN * b.box.size[axis]
        size = np.minimum(a.box.size, b.box.size)
        size[axis] = high[axis] - low[axis]
        ends = (tuple(map(float, values)) for values in (low, high, size))
        return BlockBox(*ends)  # type: ignore[arg-type]
    return None


def sources_of(
    plan: BlockPlan, files: Sequence[Path], seams: Sequence[tuple[SceneSeam, Path]]
) -> list[list[SplatSource]]:
    """Where the splats of each block come from. files: trained blocks, in the plan's order. seams:
    those that are polished, with their files; where belts overlap, the first one counts."""
    belts = tuple(seam.belt.box for seam, _ in seams)
    sources = []
    for block, file in zip(plan.blocks, files):
        own = [SplatSource(file, without=belts)]
        for number, (seam, path) in enumerate(seams):
            if block.name in (seam.first, seam.second):
                own.append(SplatSource(path, belts[number], belts[:number]))
        sources.append(own)
    return sources


def polish_whole(
    config: TrainConfig, scaffold: Scaffold, scene: Scene, folder: Path, joined: Path, steps: int
) -> Path:
    """Trains joined splats over all photographs, unless that was done, and returns their file.
    scene: with the scaffold's cameras. folder: the result folder. joined: file of the splats.
    Raises OutOfMemory where they do not fit the device."""
    polished = folder / "polish"
    done = (polished / "metrics.json").is_file()
    if done and config_from_file(polished / SAVED_NAME).run.max_steps != steps:
        archive_run(polished)
        done = False
    if not done:
        own: dict = dict(result_dir=polished, resume=(polished / "ckpts").is_dir(), blocks=None)
        own |= dict(init=joined, strategy="none", cap_max=0, early_stop=False)
        own |= dict(means_lr=config.adam.means_lr_final)
        settings = of_length(scaffold.settings(config, ends=True), steps).changed(**own)
        from hardsplat.train import PhotographLoader, run_training

        part = scaffold.part(scene, {scene.views[i].name for i in scene.train}, None)
        photographs = PhotographLoader(replace(scene, test=[]))
        run_training(settings, photographs=photographs, part=part, followed=True)
    return polished / "splats.ply"


def at_seams(
    plan: BlockPlan,
    scene: Scene,
    scaffold: Path,
    views: Sequence[dict],
    near: float,
    device: str | None,
) -> dict[str, float | int | None]:
    """Mean PSNR, dB, of held-out views that look across a border and of those that do not, and how
    many there are.

    scaffold: file of its splats. views: of eval.json, in the order of the scene's held-out views.
    near: plane before which splats are not drawn, world units.
    """
    splats = load_splats(scaffold)
    cameras = [view.camera for view in scene.held_out]
    weights = SeenSplats(splats, cameras, near, device).weights()
    share = shares([block.box for block in plan.blocks], plan.places(splats.means), weights)
    across = share.max(axis=1) < MOSTLY
    psnr = np.array([view["psnr"] for view in views])

    def mean(chosen: np.ndarray) -> float | None:
        return float(psnr[chosen].mean()) if chosen.any() else None

    return {
        "across": int(across.sum()),
        "psnr_across": mean(across),
        "within": int((~across).sum()),
        "psnr_within": mean(~across),
    }
