"""Splats put in Morton order now and then, so that those which a view shows are contiguous in
memory.

Growth appends splats and fills holes, so that neighbours in space end up far apart. A view shows a
third of the splats of a room; where they are scattered, every cache line that the projection and
its backward pass read has some of them. Faster-GS (METHODS) does the same every few thousand steps.
The order of memory means nothing else: depth ties break by it, and statistics and moments move
along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.sort import record_sort, sort_bytes
from hardsplat.tables import quantities
from hardsplat.train.strategies.strategy import Strategy, record_passes, slots_of, splat_planes

EVERY = 1_000  # steps
_ROLES = 3  # of a plane: values, first and second moments
# each step writes it again, and it has room for the numbers of any plane
_MOVED = {"moved": "splats2d"}


def resort_passes(moments: str, statistics: Sequence[str]) -> tuple[ComputePass, ...]:
    """moments: how they are stored, a variant of MOMENT_FORMATS. statistics: buffers of the
    contract, one element a splat, that a strategy keeps."""
    planes, slots = splat_planes(), slots_of(moments)
    folder, keyed = "densify/resort", ("refine_settings", "counts", "means")
    taken, put = ("counts", "order", "turn", *planes), ("counts", "turn", "moved")
    return (
        ComputePass("resort keys", f"{folder}/keys.comp", keyed, ("keys",)),
        ComputePass(
            "resort take", f"{folder}/take.comp", taken, ("moved",), slots=slots, bind=_MOVED
        ),
        ComputePass("resort put", f"{folder}/put.comp", put, planes, slots=slots, bind=_MOVED),
        ComputePass("resort next", f"{folder}/next.comp", ("turn",), ("turn",)),
        *(_statistics_pass(name, back) for name in statistics for back in (False, True)),
    )


def _statistics_pass(name: str, back: bool) -> ComputePass:
    title, both = f"resort {name}{' back' * back}", ("followed", "moved")
    spec = {"NUMBERS": contract.itemsize(name) // 4, "BACK": back}
    reads, bind = ("counts", "order", *both), {**_MOVED, "followed": name}
    return ComputePass(title, "densify/resort/follow.comp", reads, both, spec, bind=bind)


def record_resort(
    recorder: Recorder,
    run: Mapping[str, Pipeline],
    sort: Mapping[str, Pipeline],
    statistics: Sequence[str],
) -> None:
    """Parameters, moments, statistics, counts.splats and indirect.splat_groups and
    splat_blocks (as a step leaves them) -> the same in another order.

    sort: the passes of the sort by depth."""
    turns = _ROLES * quantities.plane_count("splat")
    record_passes(recorder, run, ["resort keys"])
    record_sort(recorder, sort)
    record_passes(recorder, run, turns * ["resort take", "resort put", "resort next"])
    for name in statistics:
        record_passes(recorder, run, [f"resort {name}", f"resort {name} back"])


def resort_bytes(splats: int) -> dict[str, int]:
    """Bytes of the buffers that record_resort needs for so many splats, by name."""
    return sort_bytes(splats) | {_MOVED["moved"]: 16 * splats}  # of the widest plane


def resort_due(strategy: Strategy, step: int) -> bool:
    """Whether splats are put in order after so many steps: with a change of their number, every
    EVERY steps, and after the last of a phase."""
    if not {"densify", "thin"} & {*strategy.due(step)}:
        return False
    later, every = strategy.next_due(step), strategy.settings.refine_every
    last = min(strategy.settings.refine_stop_iter, strategy.steps)
    return step // EVERY != (step - every) // EVERY or later - step > every or later >= last
