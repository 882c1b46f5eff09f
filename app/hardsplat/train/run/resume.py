"""Going on with an earlier run: the checkpoint that it begins with, and the command that people
type."""

from __future__ import annotations

import shlex
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.train import TrainConfig
from hardsplat.train.run.results import is_complete


def checkpoint_to_resume(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """The checkpoint that the settings name, or the newest of the result folder with `resume`; None
    for a run from the start.

    Raises UserError where there is none, and where there is nothing to continue.
    """
    path = config.run.ckpt
    if config.run.resume:
        path = checkpoints.newest(folder)
        if path is None:
            raise UserError(f"{folder}: no checkpoint to resume from; start without --resume")
    if path is None:
        return None
    start = checkpoints.load(path)
    if start.sh_degree != config.model.sh_degree:
        saved = path.parent.parent / SAVED_NAME
        advice = (
            f"; add --config {shlex.quote(str(saved))}"
            if saved.is_file() and not config.run.resume
            else ""
        )
        raise UserError(
            f"{path}: made with --sh-degree {start.sh_degree}, this run has "
            f"{config.model.sh_degree}{advice}"
        )
    finished = start.step == config.run.max_steps and (
        not config.run.resume or is_complete(folder, start.step)
    )
    if finished or start.step > config.run.max_steps:
        raise UserError(
            f"{path}: has {start.step} steps already, of {config.run.max_steps}; continue with "
            "more --max-steps"
        )
    return start


def resume_command(folder: Path) -> str:
    return f"hardsplat train {shlex.quote(str(folder))} --resume"
