"""The folder that a run leaves its files in."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import ensure_folder, json_of
from hardsplat.settings.run import RunSettings
from hardsplat.settings.scene import SceneSettings
from hardsplat.settings.train import scene_folder
from hardsplat.tables.layouts import layouts_of

OF_A_RUN = ["config.toml", "metrics.json", "metrics.jsonl", "metrics.csv", "tensorboard"]
OF_A_RUN += ["loss.png", "report.html", "splats.ply", "splats_[0-9]*.ply", "eval"]
OF_A_RUN += ["background.npz", "exposures.json", "intrinsics.json", "poses", "renders", "ckpts"]
# what other commands make of a run where nothing else is asked of them: pages, levels of detail,
# meshes, renders, splats in other formats, and what a window saves
DERIVED = ["page.html", "compare.html", "lod", "mesh.*", "clean.ply", "splats.*", "splats_*"]
DERIVED += ["ckpt_*", "edited*", "camera_path*.json", "screenshot_*.png"]
DERIVED += ["held-out", "train", "orbit*", "spiral*", "*.mp4", "*.webm"]
# of whatever name: a folder of frames, and splats that an edit has written with its steps
_FRAMES, _STEPS = "*/frame_00000*", ".edit.json"
SIGNS = ("metrics.json", "splats.ply", "ckpts")


def folder_of(run: RunSettings, scene: SceneSettings) -> Path:
    """The result folder of a run whose scene has a folder."""
    return Path(run.result_dir or Path("results") / scene_folder(scene.data_dir).name)


ADVICE = "choose another --result-dir"


def _check_access(path: Path) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to the folder {path}; {ADVICE}")


def check_folder(path: Path) -> None:
    """Raises UserError where `make_folder` would, as far as that can be known without making
    anything."""
    there = next(p for p in (path.absolute(), *path.absolute().parents) if os.path.lexists(p))
    if not there.is_dir():
        raise UserError(f"cannot make the folder {path}: {there} is no folder; {ADVICE}")
    _check_access(there)


def make_folder(path: Path) -> list[Path]:
    """Returns the folders that it made, the innermost first. Raises UserError where nothing can be
    written, before time is spent on what should go there."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        ensure_folder(path)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror}; {ADVICE}") from None
    _check_access(path)
    return missing


def remove_empty(made: Sequence[Path]) -> None:
    """Removes those of the folders that make_folder made in which there is nothing."""
    with suppress(OSError):
        for folder in made:
            folder.rmdir()


def archive_run(
    folder: Path, files: Sequence[str] = OF_A_RUN, signs: Sequence[str] = SIGNS
) -> Path | None:
    """Moves what an earlier run left in a result folder into earlier_1 (or the next number that is
    free) below it, and returns where.

    files: patterns of all that a run leaves; of those of a training, what was made of them goes
    along, unless the folder is a scene too. signs: those without which there was none.
    """
    if not any(path for name in signs for path in folder.glob(name)):
        return None
    earlier = next(p for n in count(1) if not (p := folder / f"earlier_{n}").exists())
    try:
        own = {path for name in files for path in folder.glob(name)}
        if files is OF_A_RUN and not ((folder / "images").exists() or layouts_of(folder)):
            own |= _derived(folder)
        earlier.mkdir()
        for path in sorted(own):
            path.rename(earlier / path.name)
    except OSError as error:
        what = f"cannot move the earlier run in {folder} into {earlier.name}"
        raise UserError(f"{what}: {error.strerror}; {ADVICE}") from None
    return earlier


def _derived(folder: Path) -> set[Path]:
    """What was made of the run in a folder."""
    found = {path for name in DERIVED for path in folder.glob(name)}
    found |= {path.parent for path in folder.glob(_FRAMES)}
    for steps in folder.glob(f"*{_STEPS}"):
        splats = steps.with_name(steps.name.removesuffix(_STEPS))
        found |= {path for path in (steps, splats) if path.exists()}
    # of splats that are not the last of a run: measurements and more
    found |= {home for path in found if (home := path.with_suffix("")).is_dir()}
    return {path for path in found if not path.name.startswith("earlier_")}


def run_of(file: Path) -> Path:
    """The result folder of splats or a checkpoint, if they are of a run."""
    return file.parent.parent if file.parent.name == "ckpts" else file.parent


def is_complete(folder: Path, steps: int) -> bool:
    """Whether a run of so many steps has written all its files: metrics.json is the last of
    them."""
    try:
        metrics = json_of((folder / "metrics.json").read_text())
        return metrics["steps"] == steps and (folder / "splats.ply").is_file()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def resume_command(folder: Path) -> str:
    return f"hardsplat train {shlex.quote(str(folder))} --resume"
