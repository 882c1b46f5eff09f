"""Results that were edited: their scene's cameras go along with the splats, and which scene that is
stays known, by the file of steps beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.edit.steps import ENDING, Edit, EditStep, Similarity, load_edit, save_edit
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.results.folder import run_of
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.scene import SceneSettings

_MOST = 100  # edits of edits


def edited(file: Path) -> tuple[Path, Similarity]:
    """The splats that a file was made of by edits, first of all, and what these did to places; the
    file itself and nothing for others. Raises UserError for files of steps that are damaged."""
    steps: tuple = ()
    for _ in range(_MOST):
        beside = steps_beside(file)
        if not beside.is_file():
            return file, Edit(steps).moved
        edit = load_edit(beside)
        steps = edit.steps + steps
        if not edit.of:
            return file, Edit(steps).moved
        file = beside.parent / edit.of
    raise UserError(f"{file}: was edited of itself; delete {file.name}{ENDING}")


def steps_beside(file: Path) -> Path:
    """The file of the steps that left these splats, where there are any."""
    return file.with_name(file.name + ENDING)


def leave_steps(target: Path, source: Path, steps: Sequence[EditStep] = ()) -> None:
    """Leaves the steps beside `target` by which its scene stays known: those of `source`, splats of
    a run or made of them, and `steps`. Where neither moves anything there are none. Raises
    UserError."""
    first, beside = edited(source)[0], steps_beside(target)
    moves = first != source or any(step.shape is None for step in steps)
    if moves and (run_of(first) / SAVED_NAME).is_file():
        save_edit(beside, steps, source)
    else:
        beside.unlink(missing_ok=True)


def scene_of(file: Path, settings: SceneSettings, undistort: bool = True) -> Scene:
    """The scene that splats show, where they are: moved with them where they were edited. file:
    as find_model gives it. Raises UserError like load_scene."""
    assert settings.data_dir
    scene = load_scene(settings.data_dir, undistort=undistort, **settings.reading)
    moved = edited(file)[1]
    views = [replace(view, camera=moved.camera(view.camera)) for view in scene.views]
    points = moved.points(scene.points)
    return replace(scene, views=views, points=points, extent=moved.factor * scene.extent)
