"""An edit in the making, as a window or a page holds it: what is selected and marked, steps that
can be taken back, and what the splats look like meanwhile. No window and no GPU is needed."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.edit.shapes import Brush, Pinhole, Rectangle, Shape, Sphere, TurnedBox
from hardsplat.edit.steps import ENDING, Edit, EditStep, Similarity, on_floor, save_edit, scale
from hardsplat.io.splats import save_splats
from hardsplat.model.camera import Camera, rotation_matrix
from hardsplat.model.gaussians import SH_C0, Gaussians

MARKS = "ABC"  # names of marked points, the newest last
HIGHLIGHT = (np.array([1.0, 0.45, 0.0]) - 0.5) / SH_C0  # colour of what is selected, as SH
REACH = 3.0  # standard deviations within which a ray meets a splat


class Editor:
    """Edits `gaussians`, of `file`, which stay as they are, for files in `folder`. Methods may be
    called by any thread; they raise UserError for what makes no sense now, and change nothing then.
    Those that select or act return for people what came of it.

    version: differs when `shown` does. marks: up to three (3,) points, world units. moved: what the
    last action did to places, for cameras that go along; moves: counts the actions that did so.
    """

    def __init__(
        self,
        gaussians: Gaussians,
        folder: Path,
        antialiased: bool = False,
        file: Path | None = None,
    ):
        self._file = file
        self._original, self._folder, self._antialiased = gaussians, folder, antialiased
        self._lock, self.version = threading.RLock(), 0
        self._actions: list[tuple[EditStep, ...]] = []
        self.marks: list[np.ndarray] = []
        self._selected: list[Shape] = []
        self._left, self.moved, self.moves = gaussians, Similarity(), 0
        self._keys: list[Camera] = []

    @property
    def steps(self) -> list[EditStep]:
        return [step for action in self._actions for step in action]

    @property
    def selecting(self) -> bool:
        return bool(self._selected)

    @property
    def reach(self) -> float:
        """World units that the middle half of the splats spans."""
        return float(np.ptp(np.quantile(self._left.means, (0.25, 0.75), axis=0), axis=0).max())

    @property
    def count(self) -> int:
        """Splats that are left."""
        return len(self._left)

    @property
    def shown(self) -> Gaussians:
        """What is left of the splats, with what is selected in another colour."""
        with self._lock:
            if not self._selected:
                return self._left
            sh, inside = self._left.sh.copy(), self._inside()
            sh[inside] = 0
            sh[inside, 0] = HIGHLIGHT
            return replace(self._left, sh=sh, check=False)

    def _inside(self) -> np.ndarray:
        means = self._left.means
        return np.any([shape.inside(means) for shape in self._selected], axis=0)

    # -- selection

    def select(self, *shapes: Shape, more: bool = False) -> str:
        """Selects what is in any of the shapes, `more` besides what is selected."""
        with self._lock:
            self._selected = [*self._selected, *shapes] if more else list(shapes)
            self.version += 1
            return f"{int(self._inside().sum()):,} splats selected"

    def paint(self, camera: Camera, x: float, y: float, radius: float) -> str:
        """Selects, besides the rest, what the camera sees under a disc, in px."""
        return self.select(Brush(Pinhole.like(camera), ((x, y, radius),)), more=True)

    def frame(self, camera: Camera, x0: float, y0: float, x1: float, y1: float) -> str:
        """Selects what the camera sees within a rectangle, in px."""
        return self.select(Rectangle(Pinhole.like(camera), (x0, y0, x1, y1)))

    def box(self) -> str:
        """Selects the box with A and B in opposite corners."""
        a, b = self._marked(2)
        return self.select(TurnedBox(tuple(a.tolist()), tuple(b.tolist())))

    def sphere(self) -> str:
        """Selects the sphere around A that goes through B."""
        a, b = self._marked(2)
        return self.select(Sphere(tuple(a.tolist()), float(np.linalg.norm(b - a))))

    def mark(self, camera: Camera, x: float, y: float) -> str:
        """Marks the point that is seen at (x, y) px; the oldest of more than three goes."""
        ray = np.linalg.solve(camera.K, [x, y, 1.0]) @ camera.w2c[:3, :3]
        with self._lock:
            point = first_hit(self._left, camera.position, ray / np.linalg.norm(ray))
            if point is None:
                raise UserError("nothing is there to be marked")
            self.marks = [*self.marks, point][-len(MARKS) :]
            return self.newest

    def _marked(self, count: int) -> list[np.ndarray]:
        if len(self.marks) < count:
            wanted = ", ".join(MARKS[:count])
            raise UserError(f"mark {wanted} first, {len(self.marks)} of {count} points are marked")
        return self.marks

    @property
    def length(self) -> float | None:
        """From A to B, world units; None before both are marked."""
        return float(np.linalg.norm(self.marks[1] - self.marks[0])) if self.marks[1:] else None

    @property
    def newest(self) -> str:
        """Where the newest mark is, and how far A is from B, for people."""
        place = ", ".join(f"{x:.4g}" for x in self.marks[-1])
        length = f"; A to B is {self.length:.4g}" if self.length else ""
        return f"{MARKS[len(self.marks) - 1]}: {place}{length}"

    # -- actions, which can be undone

    def delete(self) -> str:
        """Deletes what is selected."""
        return self._cut("delete")

    def keep(self) -> str:
        """Deletes what is not selected."""
        return self._cut("keep")

    def _cut(self, do: str) -> str:
        with self._lock:
            if not self._selected:
                raise UserError("select something first")
            if do == "keep" and len(self._selected) > 1:
                raise UserError("one shape can be kept; delete the rest, or select one shape")
            self._act(*(EditStep(do, shape) for shape in self._selected))
            self._selected = []
            return f"{len(self._left):,} splats are left"

    def floor(self) -> str:
        """Makes the plane through A, B and C the floor, y = 0, with most splats above it."""
        with self._lock:
            marks = self._marked(3)
            self._act(*on_floor(np.array(marks), [self._left.means]))
            self._moved()
            return "A, B and C are the floor, y = 0"

    def measure(self, length: float) -> str:
        """Scales so that A and B are `length` apart."""
        with self._lock:
            self._marked(2)
            now = self.length or 0.0
            if not (now > 0 and np.isfinite(length) and length > 0):
                raise UserError("expected a length above 0, and two points apart")
            self._act(scale(length / now))
            self._moved()
            return f"A to B is {length:.4g}"

    def _moved(self) -> None:
        """Moves marks and key frames as splats were moved."""
        self.moves += 1
        self._keys = [self.moved.camera(camera) for camera in self._keys]
        self.marks = list(self.moved.points(np.reshape(self.marks, (-1, 3))))

    def _act(self, *steps: EditStep) -> None:
        edit = Edit(steps)
        left = edit.applied(self._left)
        if not len(left):
            raise UserError("nothing would be left")
        self._left, self.moved = left, edit.moved
        self._actions.append(steps)
        self.version += 1

    def undo(self) -> str:
        """Takes the last action back, or what is selected."""
        with self._lock:
            if self._selected:
                self._selected = []
            elif self._actions:
                self.moved = Edit(self._actions.pop()).moved.inverse
                self._moved()
                self._left = Edit(tuple(self.steps)).applied(self._original)
            else:
                raise UserError("nothing is left to undo")
            self.version += 1
            return "undone"

    # -- files

    def key(self, camera: Camera) -> str:
        """Adds a keyframe to the camera path."""
        self._keys.append(camera)
        return f"keyframe {self.keyframes}"

    @property
    def keyframes(self) -> int:
        """Keyframes of the camera path."""
        return len(self._keys)

    def save(self, name: str = "edited.ply") -> list[Path]:
        """Writes splats and their steps, and the camera path, as far as there are any, to files of
        new names. name: of the splats, in the folder; where there is such a file, with a number."""
        out: list[Path] = []
        with self._lock:
            if not self._actions and not self._keys:
                raise UserError("there is nothing to save yet")
            if self._actions:
                stem, dot, ending = Path(name).name.partition(".")
                path = self._free(str(Path(name).parent / stem), dot + ending)
                save_splats(path, self._left, self._antialiased)
                steps = path.with_name(path.name + ENDING)
                save_edit(steps, self.steps, self._file)
                out += [path, steps]
            if self._keys:
                path = self._free("camera_path", ".json")
                keys = [
                    {"w2c": c.w2c.tolist(), "fov": float(np.degrees(c.fov))} for c in self._keys
                ]
                with written(path), replacing(path) as partial:
                    partial.write_text(json.dumps({"keyframes": keys}))
                out.append(path)
        return out

    def _free(self, stem: str, ending: str) -> Path:
        names = (f"{stem}{ending}", *(f"{stem}_{n}{ending}" for n in range(2, 10_000)))
        return next(p for name in names if not (p := self._folder / name).exists())


def first_hit(g: Gaussians, origin: np.ndarray, ray: np.ndarray) -> np.ndarray | None:
    """(3,) where half of the light along a ray is taken, or the densest place where less is; None
    where it meets nothing. origin: (3,). ray: (3,) of length 1."""
    offset = g.means.astype(np.float64) - origin
    along = offset @ ray
    beside = np.linalg.norm(offset - along[:, None] * ray, axis=1)
    near = np.flatnonzero((along > 0) & (beside < REACH * g.scales.max(axis=1)))
    if not len(near):
        return None
    quats = g.quats[near].astype(np.float64)
    axes = rotation_matrix(*(quats / np.linalg.norm(quats, axis=1, keepdims=True)).T)
    size = np.maximum(g.scales[near], 1e-9)
    start = -np.einsum("jin,nj->ni", axes, offset[near]) / size  # in the splat's own axes
    way = np.einsum("jin,j->ni", axes, ray) / size
    at = -(start * way).sum(1) / (way * way).sum(1)  # where the splat is densest
    away = ((start + at[:, None] * way) ** 2).sum(1)
    alpha = np.where(at > 0, np.minimum(g.opacities[near] * np.exp(-0.5 * away), 0.99), 0)
    order = np.argsort(at)
    left = np.cumprod(1 - alpha[order])
    if left[-1] < 0.5:  # also where each splat takes but little
        return origin + at[order[np.argmax(left < 0.5)]] * ray
    hit = int(np.argmax(alpha))
    return origin + at[hit] * ray if alpha[hit] > 0.01 else None
