"""What a user may name as a model: a result folder of a training, or a file of splats."""

from __future__ import annotations

import shlex
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.io.formats import readable, streamed_sog
from hardsplat.io.formats.checkpoint import holds, newest
from hardsplat.io.splats import open_splats
from hardsplat.model.framing import scene_bounds
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.folder import run_of
from hardsplat.settings.presets import SAVED_NAME, read_saved
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.layouts import layouts_of

# a near plane, of the distance within which most splats of a file are: what the default may be, and
# what is chosen where that is more
MOST_OF_REACH, PLANE_OF_REACH = 0.02, 0.001
# where other trainers leave splats in their result folders: Inria's, gsplat's, exports
_THEIRS = ("point_cloud/iteration_*/point_cloud.ply", "ply/point_cloud_*.ply", "splat*.*")


def find_model(
    result: str | Path, data_dir: str | Path | None = None, device: str | None = None
) -> tuple[Path, TrainConfig]:
    """The file of splats, and the settings of its run, or defaults where there are none.
    data_dir, device: take the place of those. Splats of which no run tells have the near plane that
    their size asks for.

    Raises UserError where there are no splats. `config.data_dir` stays None where nothing says
    which scene they show.
    """
    from hardsplat.results.edited import edited  # imports much, for which trainings need not wait

    path = Path(result)
    path = path.parent if path.name == "ckpts" and path.is_dir() else path
    file = path if path.suffix.lower() in readable() else path / "splats.ply"
    if not file.is_file() and (path / streamed_sog.NAME).is_file():
        file = path / streamed_sog.NAME
    folder = run_of(file)
    saved = folder / SAVED_NAME
    first, moved = edited(file)
    if not saved.is_file():
        saved = run_of(first) / SAVED_NAME  # of the run whose splats were edited
    if not file.is_file() and newest(folder) and file.parent == path:
        raise UserError(
            f"{folder}: an interrupted run without splats.ply; resume it first: hardsplat "
            f"train {shlex.quote(str(folder))} --resume"
        )
    if path.exists() and not path.is_dir() and file != path:
        raise UserError(f"{path}: is no file of splats, which come as {', '.join(readable())}")
    if layouts_of(path) and not file.is_file():
        advice = f"train it first: hardsplat train {shlex.quote(str(path))}"
        raise UserError(f"{file}: no such file; {path} is a scene, {advice}")
    if not file.is_file():
        what = f"{file}: no such file" if path.exists() else f"{path}: not found"
        kinds = f"a .ply, or splats as {', '.join(readable()[1:])}"
        found = (each for pattern in _THEIRS for each in path.glob(pattern))
        if files := [each for each in found if each.suffix.lower() in readable()]:
            newest_file = max(files, key=lambda each: each.stat().st_mtime)
            raise UserError(f"{what}; there is {newest_file}: name that file")
        raise UserError(f"{what}; give a result folder of hardsplat train, or {kinds}")
    flat = read_saved(saved) if saved.is_file() else {}
    if not (file.suffix == ".npz" and holds(file)):  # a checkpoint is as its run
        splats = open_splats(file)
        flat["antialiased"] = splats.antialiased
        if not saved.is_file() and (piece := next(splats.pieces(), None)):
            flat["near_plane"] = near_of(piece)
    if saved.is_file() and moved.factor != 1:
        near = float(flat.get("near_plane", TrainConfig().scene.near_plane))
        flat["near_plane"] = moved.factor * near
    given = {"data_dir": Path(data_dir) if data_dir else None, "device": device}
    return file, TrainConfig.of(**flat | {name: v for name, v in given.items() if v})


def near_of(splats: Gaussians) -> float:
    """The near plane for splats, or points, of which no run tells, world units: that of a training,
    or in small units less."""
    near, reach = TrainConfig().scene.near_plane, scene_bounds(splats).reach
    return near if near <= MOST_OF_REACH * reach else with_one_digit(PLANE_OF_REACH * reach)


def with_one_digit(distance: float) -> float:
    return float(f"{distance:.1g}")


def home_of(file: Path) -> Path:
    """The folder for files made of a model by default: its own. Those of a checkpoint or of an
    earlier step have a folder named like it, so that those of the last step stay."""
    folder = run_of(file)
    own = (folder / SAVED_NAME).is_file() and file.name != "splats.ply"
    return folder / file.stem if own else file.parent
