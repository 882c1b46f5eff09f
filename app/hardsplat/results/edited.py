"""Results that were edited: their scene's cameras go along with the splats, and which scene that is
stays known, by the file of steps beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.edit.steps import ENDING, Edit, Similarity, load_edit
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.settings.scene import SceneSettings

_MOST = 100  # edits of edits


def edited(file: Path) -> tuple[Path, Similarity]:
    """The splats that a file was made of by edits, first of all, and what these did to places; the
    file itself and nothing for others. Raises UserError for files of steps that are damaged."""
    steps: tuple = ()
    for _ in range(_MOST):
        beside = file.with_name(file.name + ENDING)
        if not beside.is_file():
            return file, Edit(steps).moved
        edit = load_edit(beside)
        steps = edit.steps + steps
        if not edit.of:
            return file, Edit(steps).moved
        file = beside.parent / edit.of
    raise UserError(f"{file}: was edited of itself; delete {file.name}{ENDING}")


def scene_of(file: Path, settings: SceneSettings, undistort: bool = True) -> Scene:
    """The scene that splats show, where they are: moved with them where they were edited. file:
    as find_model gives it. Raises UserError like load_scene."""
    assert settings.data_dir
    scene = load_scene(settings.data_dir, undistort=undistort, **settings.reading)
    moved = edited(file)[1]
    views = [replace(view, camera=moved.camera(view.camera)) for view in scene.views]
    points = moved.points(scene.points)
    return replace(scene, views=views, points=points, extent=moved.factor * scene.extent)
