"""Splats put in Morton order now and then, so that those which a view shows stand side by side in
memory.

Growth appends splats and fills holes, so that neighbours in space end up far apart. A view shows a
third of the splats of a room; where they are scattered, every cache line that the projection and
its backward pass read has some of them. Faster-GS (METHODS) does the same every few thousand steps.
The order of memory says nothing else: depth ties break by it, and statistics and moments move
along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.sort import record_sort
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.train.strategies.refine import slots_of, splat_planes
from hardsplat.train.strategies.strategy import Strategy

EVERY = 1_000  # steps
_ROLES = 3  # of a plane: values, first and second moments
_MOVED = {
    "moved": "splats2d"
}  # which each step writes anew, and which has room for the numbers of any plane


def resort_passes(moments: str, follows: Sequence[str]) -> tuple[ComputePass, ...]:
    """moments: how they are stored, a variant of MOMENT_FORMATS. follows: buffers of the contract,
    one element a splat, that a strategy keeps."""
    planes, slots = splat_planes(), slots_of(moments)
    return (
        ComputePass(
            "resort keys",
            "densify/resort/keys.comp",
            ("refine_settings", "camera", "counts", "means"),
            ("keys",),
        ),
        ComputePass(
            "resort take",
            "densify/resort/take.comp",
            ("counts", "order", "turn", *planes),
            ("moved",),
            slots=slots,
            bind=_MOVED,
        ),
        ComputePass(
            "resort put",
            "densify/resort/put.comp",
            ("counts", "turn", "moved"),
            planes,
            slots=slots,
            bind=_MOVED,
        ),
        ComputePass("resort next", "densify/resort/next.comp", ("turn",), ("turn",)),
        *(_follow(name, back) for name in follows for back in (False, True)),
    )


def _follow(name: str, back: bool) -> ComputePass:
    both = ("followed", "moved")
    spec = {"NUMBERS": contract.itemsize(name) // 4, "BACK": back}
    return ComputePass(
        f"resort {name}{' back' * back}",
        "densify/resort/follow.comp",
        ("counts", "order", *both),
        both,
        spec,
        bind={**_MOVED, "followed": name},
    )


def record_resort(
    recorder: Recorder,
    run: Mapping[str, Pipeline],
    sort: Mapping[str, Pipeline],
    follows: Sequence[str],
) -> None:
    """Parameters, moments, what follows them, counts.splats and indirect.splat_groups and
    splat_blocks (as a step leaves them) -> the same in another order.

    sort: the passes of the sort by depth."""
    recorder.run(run["resort keys"], indirect="splat_groups")
    record_sort(recorder, sort)
    for _ in range(_ROLES * quantities.plane_count("splat")):
        for name in ("take", "put"):
            recorder.run(run[f"resort {name}"], indirect="splat_groups")
        recorder.run(run["resort next"], threads=(1,))
    for name in follows:
        recorder.run(run[f"resort {name}"], indirect="splat_groups")
        recorder.run(run[f"resort {name} back"], indirect="splat_groups")


def resort_due(strategy: Strategy, config: TrainConfig, step: int) -> bool:
    """Whether splats are put in order after so many steps: with a change of their number, every
    EVERY steps, and after the last of a phase."""
    if not {"densify", "thin"} & {*strategy.due(config, step)}:
        return False
    later = strategy.next_due(config, step)
    return (
        step // EVERY != (step - config.densify.refine_every) // EVERY
        or later - step > config.densify.refine_every
        or later >= min(config.densify.refine_stop_iter, config.run.max_steps)
    )
