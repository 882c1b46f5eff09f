"""plan.json: how a scene is cut into blocks, and what each block trains on. It may be edited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import replacing, write_json
from hardsplat.blocks.cut import BlockBox
from hardsplat.io.scenes.source import stays_below
from hardsplat.io.scenes.values import json_in
from hardsplat.model.region import OPEN, Region

NAME, PICTURE, SCHEMA = "plan.json", "plan.png", 1
DOTS = 50_000  # splats that are drawn
LARGEST = 64 << 20  # bytes of a file that is read
MARGIN = 0.1  # of a block's size, by which the region is wider in which it grows


@dataclass(frozen=True)
class SceneBlock:
    """name: of its folder. photographs: names, those that show most of it first. cap: most splats
    inside. steps: of its training. seconds: expected. start: file of the splats that it starts
    from, below the result folder; "" for those of the scaffold."""

    name: str
    box: BlockBox
    photographs: tuple[str, ...]
    cap: int
    steps: int
    seconds: float = 0.0
    start: str = ""

    def region(self, axes: np.ndarray) -> Region:
        """Where it may grow. axes: (3, 3), horizontal ones first."""
        ends, size = np.array([self.box.low, self.box.high]), np.array(self.box.size)
        wider = np.where(np.abs(ends) < OPEN, ends + [-MARGIN * size, MARGIN * size], ends)
        u, v = (tuple(map(float, row)) for row in axes[:2])
        (u0, v0), (u1, v1) = wider.tolist()
        upright = (u, v, (0.0, 0.0, 0.0))
        return Region(upright, (u0, v0, -OPEN), (u1, v1, OPEN))  # type: ignore[arg-type]


@dataclass(frozen=True)
class BlockPlan:
    """scene: its folder. axes: (3, 3) rows, two horizontal axes and up."""

    scene: str
    axes: np.ndarray
    blocks: tuple[SceneBlock, ...]

    def places(self, means: np.ndarray) -> np.ndarray:
        """(N, 2) positions of (N, 3) means seen from above, world units."""
        return means.astype(np.float64) @ self.axes[:2].T

    def parted(self, name: str, halves: Sequence[SceneBlock]) -> BlockPlan:
        rows = [new for b in self.blocks for new in (halves if b.name == name else [b])]
        return replace(self, blocks=tuple(rows))

    def lines(self, polish: int = 0) -> list[str]:
        """What there is to say of it, a line a block. polish: steps over all of them at the end,
        which take the longer, the more splats there are."""
        total = sum(block.seconds for block in self.blocks)
        work, splats = sum(b.steps * b.cap for b in self.blocks), sum(b.cap for b in self.blocks)
        total += polish * splats * total / work
        said = [f"{len(self.blocks)} blocks, about {total:.0f} s of training on one device:"]
        for b in self.blocks:
            about = f"{len(b.photographs)} photographs, {b.cap:,} splats, {b.steps} steps"
            said.append(f"  {b.name}: {about}")
        said += [f"  polish of all {splats:,} splats: {polish} steps"] * bool(polish)
        return said

    def save(self, path: Path) -> None:
        """Raises UserError where the file cannot be written."""
        write_json(path, {"schema": SCHEMA, **asdict(self), "axes": self.axes.tolist()})

    def draw(self, means: np.ndarray, positions: np.ndarray, path: Path) -> None:
        """Writes a PNG of it, seen from above. means: (N, 3) of the scaffold's splats. positions:
        (V, 3) of the cameras."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        places = self.places(means[:: max(1, len(means) // DOTS)])
        cameras = self.places(positions)
        low, high = np.quantile(np.concatenate([places, cameras]), [0.01, 0.99], axis=0)
        low, high = np.minimum(low, cameras.min(axis=0)), np.maximum(high, cameras.max(axis=0))
        margin = 0.03 * (high - low)
        low, high = low - margin, high + margin
        figure = Figure(figsize=(8, 8), layout="constrained")
        axes = figure.add_subplot(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        axes.plot(*places.T, ",", color="0.6", rasterized=True)
        label = f"{len(cameras)} photographs"
        axes.plot(*cameras.T, ".", color="tab:red", markersize=4, label=label)
        for number, block in enumerate(self.blocks):
            corner = np.where(np.array(block.box.low) > -OPEN, block.box.low, low)
            far = np.where(np.array(block.box.high) < OPEN, block.box.high, high)
            color = f"C{number % 10}"
            (x, y), (width, height) = corner, far - corner
            axes.add_patch(Rectangle((x, y), width, height, fc=(color, 0.12), ec=color))
            text = f"{block.name}\n{len(block.photographs)} photographs\n{block.cap:,} splats"
            axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)
        axes.set(xlabel="world units", ylabel="world units", title="blocks from above")
        axes.legend(loc="upper right")
        with replacing(path) as unfinished:
            figure.savefig(unfinished, format="png", dpi=120)


def load_plan(path: Path, photographs: Sequence[str], scene: str) -> BlockPlan:
    """The plan in a file, checked. photographs: names of the scene's training views. Raises
    UserError that names the file and what is wrong with it."""
    if path.is_file() and path.stat().st_size > LARGEST:
        raise UserError(f"{path}: larger than {LARGEST >> 20} MiB, so no plan")
    table = json_in(path)
    try:
        plan = _plan(table)
    except KeyError as error:
        raise UserError(f"{path}: not a plan of blocks, {error} is missing") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{path}: not a plan of blocks: {reason(error)}") from None
    _check(plan, path, set(photographs), scene)
    return plan


def _plan(table: dict[str, Any]) -> BlockPlan:
    if table["schema"] != SCHEMA:
        raise ValueError(f"its schema is {table['schema']}, not {SCHEMA}")
    axes = np.array(table["axes"], np.float64)
    if axes.shape != (3, 3) or not np.allclose(axes @ axes.T, np.eye(3), atol=1e-4):
        raise ValueError("axes are not orthonormal")
    return BlockPlan(str(table["scene"]), axes, tuple(map(block_of, table["blocks"])))


def block_of(row: dict[str, Any]) -> SceneBlock:
    """A block of its row in plan.json. Raises ValueError, KeyError or TypeError for a damaged
    one."""
    ends = (tuple(map(float, row["box"][name])) for name in ("low", "high", "size"))
    box = BlockBox(*ends)  # type: ignore[arg-type]
    names = tuple(map(str, given := row["photographs"]))
    seconds, start = float(row["seconds"]), str(row.get("start", ""))
    block = SceneBlock(str(row["name"]), box, names, row["cap"], row["steps"], seconds, start)
    where, lengths = f"block {block.name[:40]}", [*box.low, *box.high, *box.size, block.seconds]
    if not (len(lengths) == 7 and all(map(math.isfinite, lengths)) and min(box.size) > 0):
        raise ValueError(f"{where}: its box is not low, high and size, two finite numbers each")
    if not all(low < high for low, high in zip(box.low, box.high)):
        raise ValueError(f"{where}: the low end of its box lies beyond the high one")
    if not block.name.replace("-", "").isalnum():
        raise ValueError(f"{where}: its name has more than letters, digits and -")
    if not all(type(n) is int and 0 < n < 2**31 for n in (block.cap, block.steps)):
        raise ValueError(f"{where}: its cap and steps are not whole numbers from 1 on")
    if not isinstance(given, list | tuple):
        raise ValueError(f"{where}: its photographs are no list")
    return block


def _check(plan: BlockPlan, path: Path, photographs: set[str], scene: str) -> None:
    if not plan.blocks:
        raise UserError(f"{path}: has no blocks")
    if len({block.name for block in plan.blocks}) < len(plan.blocks):
        raise UserError(f"{path}: two blocks have one name")
    for block in plan.blocks:
        if not block.photographs:
            raise UserError(
                f"{path}: block {block.name} has no photographs: leave it out or add some"
            )
        if missing := [name for name in block.photographs if name not in photographs]:
            raise UserError(
                f"{path}: block {block.name} names {missing[0]}, which is no training photograph "
                f"of {scene}: the plan is of another scene ({plan.scene}), or was edited"
            )
        if block.start and not _starts_below(path.parent, block.start):
            what = f"which is no file below {path.parent}"
            raise UserError(f"{path}: block {block.name} starts from {block.start}, {what}")
    if found := _overlapping(plan.blocks):
        a, b = (plan.blocks[i].name for i in sorted(found))
        raise UserError(f"{path}: blocks {a} and {b} overlap")


def _starts_below(folder: Path, start: str) -> bool:
    with suppress(OSError):  # a name that no file can have
        return stays_below(start) and (folder / start).is_file()
    return False


def _overlapping(blocks: Sequence[SceneBlock]) -> tuple[int, int] | None:
    """Two blocks whose boxes overlap, or None. Compares boxes that begin before another one
    ends."""
    low, high = (np.array([getattr(b.box, end) for b in blocks]) for end in ("low", "high"))
    order = np.argsort(low[:, 0])
    low, high = low[order], high[order]
    ends = np.searchsorted(low[:, 0], high[:, 0])
    for i, end in enumerate(ends.tolist()):
        lower, upper = low[i + 1 : end], high[i + 1 : end]
        if (hits := np.flatnonzero(((lower < high[i]) & (upper > low[i])).all(axis=1))).size:
            return int(order[i]), int(order[i + 1 + hits[0]])
    return None
