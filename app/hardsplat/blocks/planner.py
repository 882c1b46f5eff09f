"""Makes a plan from a scaffold: where to cut, and which photographs belong to a block."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.blocks.cut import BlockBox, cut_grid, cut_in_two, cut_into, cut_to_fit, upright_axes
from hardsplat.blocks.plan import BlockPlan, SceneBlock
from hardsplat.export.contribution import SeenSplats
from hardsplat.gpu.device.context import Device
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import load_splats
from hardsplat.model.camera import Camera

FEWEST = 50  # photographs of a block, where the program decides how many blocks there are
LEAST_INSIDE = 0.3  # share of the splats of a block, with those around it, below which halves
# would hardly be smaller
FILLED = 0.7  # share of a device's memory that a block's splats may take
MOST_BLOCKS = 4_096
LEAST_WEIGHT = 0.05  # share of what a photograph shows that lies in a block which trains on it
LEAST_POINTS = 50  # points of a block that a camera in it must see more of
MOST_PHOTOGRAPHS = 1_500  # photographs a block, those with the largest share first


@dataclass(frozen=True)
class Wanted:
    """How many blocks: a number, columns x rows, or as many as fit the devices.

    Raises UserError for any other word.
    """

    word: str

    def __post_init__(self):
        if not (self.word == "auto" or re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3})?", self.word)):
            raise UserError(f"--blocks {self.word}: takes auto, a number such as 4, or 2x3")

    @property
    def count(self) -> int | None:
        """How many, where that does not follow from the devices."""
        if self.word == "auto":
            return None
        return math.prod(map(int, self.word.split("x")))

    def cut(self, places: np.ndarray, fits) -> list[BlockBox]:
        """Boxes around (N, 2) places. fits: whether a block with n of them fits a device."""
        if self.word == "auto":
            return cut_to_fit(places, fits, MOST_BLOCKS)
        if "x" in self.word:
            return cut_grid(places, *map(int, self.word.split("x")))
        return cut_into(places, int(self.word))


@dataclass(frozen=True)
class Sizes:
    """What a training of the whole scene would have, and what limits a block.

    splats: in all, at the end. steps: in all. device_splats: most that the smallest device holds.
    step_seconds: of a step of the scaffold.
    """

    splats: int
    steps: int
    device_splats: int
    step_seconds: float


def make_plan(
    scene: Scene, scaffold: Path, wanted: Wanted, sizes: Sizes, near: float, device: str | None
) -> BlockPlan:
    """The plan for a scene, whose cameras are those that the scaffold found.

    scaffold: file of its splats. near: plane before which splats are not drawn, world units.
    Raises UserError where a block has no photograph, or too few of them are left for one.
    """
    gaussians = load_splats(scaffold)
    cameras = [scene.views[i].camera for i in scene.train]
    axes = upright_axes(cameras, gaussians.means)
    places = gaussians.means.astype(np.float64) @ axes[:2].T
    growth = sizes.splats / len(gaussians)
    boxes = wanted.cut(places, lambda n: n * growth <= FILLED * sizes.device_splats)

    fine, weights = boxes, SeenSplats(gaussians, cameras, near, device).weights()
    inside = [np.flatnonzero(box.holds(places))[:1] for box in fine]
    fine_share = shares(fine, places, weights)  # all that memory holds of the weights

    def listed(boxes: Sequence[BlockBox]) -> list[list[int]]:
        parts = [[bool(box.holds(places[one]).any()) for one in inside] for box in boxes]
        share = fine_share @ np.array(parts, float).T  # boxes are unions of the fine ones
        rows = zip(boxes, share.T)
        return [photographs_of(box, s, cameras, axes[:2], scene.points) for box, s in rows]

    photographs = listed(boxes)
    while wanted.word == "auto" and len(boxes) > 1 and min(map(len, photographs)) < FEWEST:
        boxes = cut_into(places, len(boxes) - 1)
        photographs = listed(boxes)
    if not all(photographs):
        raise UserError(
            f"--blocks {wanted.word}: a block would have no photographs; use fewer blocks"
        )
    blocks = []
    for number, (box, mine) in enumerate(zip(boxes, photographs)):
        names = tuple(scene.views[scene.train[i]].name for i in mine)
        steps = max(1, round(sizes.steps * len(mine) / len(cameras)))
        block = SceneBlock(f"block-{number:03d}", box, names, 1, steps)
        cap = max(1, round(sizes.splats * block.region(axes).inside(gaussians.means).mean()))
        seconds = round(steps * sizes.step_seconds * max(1.0, cap / len(gaussians)), 1)
        blocks.append(replace(block, cap=cap, seconds=seconds))
    return BlockPlan(scene.name, axes, tuple(blocks))


def halved(
    plan: BlockPlan,
    block: SceneBlock,
    scene: Scene,
    start: Path,
    made: int,
    near: float,
    device: Device,
) -> list[SceneBlock]:
    """Two blocks instead of one whose splats fill its device, for the steps that are left;
    none where either would have fewer than FEWEST photographs, or most splats lie around it.

    scene: the block's photographs. start: file of its splats and those around it, in its folder.
    made: steps. near, device: as for make_plan.
    """
    splats = load_splats(start)
    places, cameras = plan.places(splats.means), [view.camera for view in scene.views]
    boxes = [*cut_in_two(block.box, places[block.box.holds(places)])]
    inside = block.region(plan.axes).inside(splats.means).sum()
    if inside < LEAST_INSIDE * len(splats):
        return []
    others = [b.box for b in plan.blocks if b.name != block.name]
    weights = SeenSplats(splats, cameras, near, device).weights()
    share = shares([*boxes, *others], places, weights)
    halves = []
    for number, box in enumerate(boxes):
        mine = photographs_of(box, share[:, number], cameras, plan.axes[:2], scene.points)
        if len(mine) < FEWEST:
            return []
        names, part = tuple(scene.views[i].name for i in mine), len(mine) / len(cameras)
        half = replace(block, name=f"{block.name}-{number}", box=box, photographs=names)
        cap = block.cap * half.region(plan.axes).inside(splats.means).sum() / inside
        steps = max(1, round((block.steps - made) * part))
        most, seconds = max(1, round(cap)), round(block.seconds * part, 1)
        begins = f"blocks/{block.name}/{start.name}"
        halves.append(replace(half, cap=most, steps=steps, seconds=seconds, start=begins))
    return halves


def shares(
    boxes: Sequence[BlockBox], places: np.ndarray, weights: Iterable[np.ndarray]
) -> np.ndarray:
    """(V, B) share of each block in the blended weight of each photograph.

    places: (N, 2) of the splats. weights: for each photograph (N,), sums of alpha times the
    transmittance in front over its pixels.
    """
    owner = np.full(len(places), len(boxes))
    for number, box in enumerate(boxes):
        owner[box.holds(places)] = number
    sums = np.array([np.bincount(owner, w, len(boxes) + 1)[: len(boxes)] for w in weights])
    return sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-30)


def photographs_of(
    box: BlockBox,
    share: np.ndarray,
    cameras: Sequence[Camera],
    axes: np.ndarray,
    points: np.ndarray,
) -> list[int]:
    """Indices of the photographs of a block, most share first.

    share: (V,) of the block in each photograph. axes: (2, 3) horizontal. points: (P, 3) of the
    scene, world units.
    """
    within = points[box.holds(points @ axes.T)]
    standing = box.holds(np.array([camera.position for camera in cameras]) @ axes.T)
    chosen = [
        v
        for v in np.argsort(-share, kind="stable")
        if share[v] >= LEAST_WEIGHT
        or (standing[v] and len(cameras[v].pixels(within)[0]) > LEAST_POINTS)
    ]
    return [int(v) for v in chosen[:MOST_PHOTOGRAPHS]]
