"""The passes of a step in groups that people think in, and tables of their times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STAGES = {  # stage -> beginnings of the names of its passes
    "project": ("project ", "sizes"),
    "sort": ("sort ",),
    "tiles": ("tile ",),
    "lists": ("list ",),
    "forward draw": ("begin forward", "draw ", "resolve"),
    "loss": ("loss ",),
    "backward draw": ("begin backward", "draw backward "),
    "project backward": ("project backward ",),
    "optimizer": ("adam ",),
}


def stage_of(name: str) -> str:
    """The stage of a pass: the one with the longest matching beginning."""
    pairs = [(begin, stage) for stage, begins in STAGES.items() for begin in begins]
    matching = [(len(begin), stage) for begin, stage in pairs if f"{name} ".startswith(begin)]
    return max(matching, default=(0, "other"))[1]


def by_stage(passes: dict[str, float]) -> dict[str, float]:
    """Milliseconds by stage, in the order of a step, of milliseconds by pass. `other` has what is
    not drawing: schedule, noise, the step's end."""
    sums = dict.fromkeys((*STAGES, "other"), 0.0)
    for name, ms in passes.items():
        sums[stage_of(name)] += ms
    return {stage: ms for stage, ms in sums.items() if ms}


def stage_medians(timed: Sequence[dict[str, float]]) -> dict[str, float]:
    """Median milliseconds of each stage over timed steps that are much alike."""
    names = dict.fromkeys(n for s in timed for n in s)
    return {n: float(np.median([s[n] for s in timed if n in s])) for n in names}


def stage_table(stages: dict[str, float]) -> str:
    """`--profile`: stage, milliseconds and share of a step, in the order of the step."""
    if not stages:
        return "no step was timed: the device has no timestamps, or no step was made"
    whole = sum(stages.values())
    lines, width = {**stages, "whole step": whole}, max(map(len, (*stages, "whole step")))
    rows = [f"{n:{width}}  {ms:9.3f}  {ms / whole:6.1%}" for n, ms in lines.items()]
    return "\n".join([f"{'stage':{width}}  {'ms':>9}   share", *rows])
