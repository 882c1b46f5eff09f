"""Edits as a list of steps, each of what the steps before it left, and their files, see
docs/guide/editing.md.

Shapes are in the world as it is at that step; rotations and scales are about its origin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.edit.shapes import Shape, numbers, shape_of, unit
from hardsplat.io.formats.frames import rotated
from hardsplat.io.scenes.values import json_in
from hardsplat.model.camera import Camera, rotation_matrix
from hardsplat.model.gaussians import Gaussians

VERSION, KEY = 1, "hardsplat_edit"
MOST_STEPS, MOST_BYTES = 10_000, 64 << 20
ENDING = ".edit.json"  # of the file of steps beside the splats that they left
SMALLEST, LARGEST = 1e-6, 1e6  # factors of a scale
UP = np.array([0.0, -1.0, 0.0])  # what is up in hardsplat's frame


@dataclass(frozen=True)
class Similarity:
    """x -> factor * rotation x + offset. rotation: (3, 3). offset: (3,) world units."""

    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    factor: float = 1.0
    offset: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def points(self, points: np.ndarray) -> np.ndarray:
        """(N, 3) moved."""
        with np.errstate(invalid="ignore", over="ignore"):  # splats that are not finite stay so
            return self.factor * (points @ self.rotation.T) + self.offset

    @property
    def inverse(self) -> Similarity:
        back = self.rotation.T
        return Similarity(back, 1 / self.factor, back @ self.offset / -self.factor)

    def camera(self, camera: Camera) -> Camera:
        """The camera that sees the moved world as this one sees that of before."""
        w2c = camera.w2c.copy()
        w2c[:3, :3] = camera.w2c[:3, :3] @ self.rotation.T
        w2c[:3, 3] = -w2c[:3, :3] @ self.points(camera.position[None])[0]
        return replace(camera, w2c=w2c)

    def then(self, step: EditStep) -> Similarity:
        if step.do == "turn":
            turn = rotation_matrix(*step.numbers)
            return Similarity(turn @ self.rotation, self.factor, turn @ self.offset)
        if step.do == "scale":
            (by,) = step.numbers
            return Similarity(self.rotation, by * self.factor, by * self.offset)
        return replace(self, offset=self.offset + step.numbers)

    def splats(self, g: Gaussians) -> Gaussians:
        """Splats moved, with their colours. Raises UserError where they come to be larger, smaller
        or farther than their numbers can be."""
        g = rotated(g, self.rotation)
        if self.factor == 1 and not self.offset.any():
            return g
        with np.errstate(over="ignore", under="ignore"):
            means = Similarity(np.eye(3), self.factor, self.offset).points(g.means)
            means, scales = means.astype(np.float32), (g.scales * self.factor).astype(np.float32)
        lost = np.isfinite(g.means) & ~np.isfinite(means)
        lost |= np.isfinite(g.scales) & ((scales > 0) & np.isfinite(scales) != (g.scales > 0))
        if lost.any():
            what = f"{np.count_nonzero(lost.any(axis=1)):,} splats"
            by = f"scales by {self.factor:g} and moves by {np.abs(self.offset).max():g} in all"
            raise UserError(f"{what} do not fit into float32 where the edit {by}")
        return replace(g, means=means, scales=scales, check=False)


@dataclass(frozen=True)
class EditStep:
    """do: keep or delete, with a shape; turn (quat wxyz), scale (factor) or move (world units),
    with numbers."""

    do: str
    shape: Shape | None = None
    numbers: tuple[float, ...] = ()

    def words(self) -> dict[str, Any]:
        if self.shape is not None:
            return {"do": self.do, **self.shape.words()}
        name, count = _MOVES[self.do]
        return {"do": self.do, name: list(self.numbers) if count > 1 else self.numbers[0]}


_MOVES = {"turn": ("quat", 4), "scale": ("factor", 1), "move": ("by", 3)}


def turn(quat: Sequence[float]) -> EditStep:
    """quat: wxyz, of any length but 0."""
    return EditStep("turn", None, tuple(unit(quat).tolist()))


def scale(factor: float) -> EditStep:
    """Raises UserError for a factor that is not in 1e-6..1e6."""
    if not SMALLEST <= factor <= LARGEST:
        raise UserError(f"scale: expected a factor of {SMALLEST:g} to {LARGEST:g}, got {factor:g}")
    return EditStep("scale", None, (float(factor),))


def upright(direction: np.ndarray) -> EditStep:
    """Turns a direction (3,) up, by the least angle."""
    start = direction / np.linalg.norm(direction)
    if start @ UP < -1 + 1e-12:  # which any half turn about a level axis does
        return turn((0.0, 0.0, 0.0, 1.0))
    return turn((1 + start @ UP, *np.cross(start, UP)))


def on_floor(places: np.ndarray, means: Iterable[np.ndarray]) -> list[EditStep]:
    """Steps that bring the plane through three places (3, 3), world units, to y = 0, so that most
    splats are above it. means: (N, 3) of theirs, piece by piece. Raises UserError for places on one
    line."""
    a, b, c = places.astype(np.float64)
    normal = np.cross(b - a, c - a)
    if not float(np.linalg.norm(normal)) > 1e-9 * float(np.ptp(places, axis=0).max()) ** 2:
        raise UserError("floor: expected three places that are not on one line")
    above = sum(int(np.sign(np.nan_to_num((piece - a) @ normal)).sum()) for piece in means)
    step = upright(normal if above >= 0 else -normal)
    height = float(Similarity().then(step).points(a[None])[0, 1])
    return [step, EditStep("move", None, (0.0, -height, 0.0))]


@dataclass(frozen=True)
class Edit:
    """Steps in their order. of: the splats that they begin with, a path from the folder of their
    file, or ""."""

    steps: tuple[EditStep, ...] = ()
    of: str = ""

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def moved(self) -> Similarity:
        """What all steps together do to places."""
        out = Similarity()
        for step in self.steps:
            out = out if step.shape else out.then(step)
        return out

    def inside(self, means: np.ndarray) -> np.ndarray:
        """(N,) bool: which splats with these centres, (N, 3), world units before the edit, stay."""
        keep, moved = np.ones(len(means), bool), Similarity()
        for step in self.steps:
            if step.shape is None:
                moved = moved.then(step)
            else:
                keep &= step.shape.inside(moved.points(means)) == (step.do == "keep")
        return keep

    def applied(self, gaussians: Gaussians) -> Gaussians:
        """What is left of splats, where it is after the edit."""
        return self.moved.splats(gaussians[self.inside(gaussians.means)])


def edit_of(words: Any) -> Edit:
    """The edit that the JSON of a file means. Raises UserError that names the step."""
    if not isinstance(words, Mapping) or words.get(KEY) != VERSION:
        raise UserError(f'expected {{"{KEY}": {VERSION}, "steps": [...]}}')
    rows = words.get("steps")
    if not isinstance(rows, Sequence) or isinstance(rows, str) or len(rows) > MOST_STEPS:
        raise UserError(f"steps: expected a list of at most {MOST_STEPS}")
    if not isinstance(of := words.get("of", ""), str) or "\0" in of:
        raise UserError("of: expected the path of splats")
    return Edit(tuple(_step(i, row) for i, row in enumerate(rows, start=1)), of)


def _step(number: int, row: Any) -> EditStep:
    try:
        if not isinstance(row, Mapping):
            raise UserError(f"expected a map, got {str(row)[:60]}")
        do, rest = row.get("do"), {k: v for k, v in row.items() if k != "do"}
        if do in ("keep", "delete"):
            return EditStep(do, shape_of(rest))
        if not isinstance(do, str) or do not in _MOVES:
            raise UserError(f"do: expected keep, delete, {', '.join(_MOVES)}, got {str(do)[:40]}")
        name, count = _MOVES[do]
        if rest.keys() != {name}:
            raise UserError(f"{do}: expected {name}, got {', '.join(rest)[:60] or 'nothing'}")
        given = numbers(name, [rest[name]] if count == 1 else rest[name], count)
        if do == "scale":
            return scale(given[0])
        return turn(given) if do == "turn" else EditStep(do, None, given)
    except UserError as error:
        raise UserError(f"step {number}: {error}") from None


def load_edit(path: Path) -> Edit:
    """Raises UserError for a file that is missing, larger than 64 MiB, or no edit."""
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: larger than {MOST_BYTES >> 20} MiB; no file of edits")
    words = json_in(path)
    try:
        return edit_of(words)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def save_edit(path: Path, steps: Iterable[EditStep], of: Path | None = None) -> None:
    """A file that `load_edit` reads. of: the splats that the steps begin with. Raises UserError
    where it cannot be written."""
    rows = ",\n".join("  " + json.dumps(step.words()) for step in steps)
    head = f'"{KEY}": {VERSION}, '
    if of is not None:
        head += f'"of": {json.dumps(_from(path.parent, of))}, '
    with written(path), replacing(path) as partial:
        partial.write_text(f'{{{head}"steps": [\n{rows}]}}\n', encoding="utf-8")


def _from(folder: Path, file: Path) -> str:
    """The path of a file from a folder; a whole one on another drive of Windows."""
    try:
        return Path(os.path.relpath(file.absolute(), folder.absolute())).as_posix()
    except ValueError:
        return file.absolute().as_posix()
