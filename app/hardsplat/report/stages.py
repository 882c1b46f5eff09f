"""The passes of a step in groups that people think in."""

from __future__ import annotations

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
