"""Continuing an earlier run: the checkpoint that it begins with, and the command for the user."""

from __future__ import annotations

import shlex
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.settings.presets import SAVED_NAME, read_saved
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job.validation import whole_steps
from hardsplat.train.run.files import is_complete


def checkpoint_to_resume(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """The checkpoint that the settings name, or the newest of the result folder with `resume`; None
    for a run from the start.

    Raises UserError where there is none, and where there is nothing to continue.
    """
    settings = config.run
    path, steps = settings.ckpt, settings.max_steps
    if settings.resume:
        path = checkpoints.newest(folder)
        if path is None:
            raise UserError(f"{folder}: no checkpoint to resume from; start without --resume")
    if path is None:
        return None
    start = checkpoints.load(path)
    if settings.early_stop and (settled := start.log.get("settled")):
        steps = whole_steps(settled)
    saved = path.parent.parent / SAVED_NAME
    degree, filtered = config.model.sh_degree, config.raster.antialiased
    began = bool(read_saved(saved).get("antialiased")) if saved.is_file() else filtered
    made, this = "", ""
    if start.sh_degree != degree:
        made, this = f"--sh-degree {start.sh_degree}", str(degree)
    elif began != filtered:
        made, this = (f"--{'' if each else 'no-'}antialiased" for each in (began, filtered))
    if made:
        helps = saved.is_file() and not settings.resume
        advice = f"; add --config {shlex.quote(str(saved))}" if helps else ""
        raise UserError(f"{path}: made with {made}, this run has {this}{advice}")
    complete = not settings.resume or is_complete(folder, start.step)
    if start.step > steps or (start.step == steps and complete):
        raise UserError(
            f"{path}: has {start.step} steps already, of {steps}; continue with more --max-steps"
        )
    return start


def resume_command(folder: Path) -> str:
    return f"hardsplat train {shlex.quote(str(folder))} --resume"
