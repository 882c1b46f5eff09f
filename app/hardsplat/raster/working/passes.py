"""Passes that gather what a view may show from a model into a working set, and put back what a step
has changed.

    cull, scan, list: model -> working, counts.splats (ascending, one bit a splat in between)
    gather: values of all planes before the projection; moments and statistics before Adam
    put: values, moments and statistics of the planes that the step has moved

Only splats that a view may show are touched in planes of the host's memory. Between gather and put
the working set is all that the passes of a rasterizer know, in buffers of its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.tables import quantities

# What passes over a whole model bind instead of what the working set has under these names.
ON_MODEL = {name: f"model_{name}" for name in ("planes", "counts", "indirect")}
_TABLES = ("model_planes", "counts", "shown_bits", "shown_sums")
_MOVES = "working/moves.glsl"


def cull_passes(geometry: Sequence[str], lens: str) -> list[ComputePass]:
    """The model's planes of `geometry` -> working, counts.splats and counts.wanted. lens: the file
    that fills <lens>."""
    shown = ("shown_bits", "shown_sums")
    reads, slots = (*geometry, "camera", "frame", "counts"), {"lens": lens}
    cull = ComputePass("cull", "working/cull.comp", reads, shown, slots=slots, bind=ON_MODEL)
    reads = ("model_counts", "counts", "shown_sums")
    scan = ComputePass("cull scan", "working/scan.comp", reads, ("counts", "shown_sums"))
    listed = ComputePass("cull list", "working/list.comp", ("counts", *shown), ("working",))
    return [cull, scan, replace(listed, bind={"indirect": "model_indirect"})]


def _move(what: str, back: bool, slots: Mapping[str, str]) -> ComputePass:
    """what: values or moments."""
    name = f"put {what}" if back else f"gather {what}"
    names = quantities.values() if what == "values" else quantities.moments()
    reads = "frame" if what == "values" and not back else "rates"
    path, spec, bind = f"working/{what}.comp", {"BACK": back}, {"indirect": "model_indirect"}
    return ComputePass(name, path, (*_TABLES, reads, *names), names, spec, slots, bind=bind)


def gather_pass() -> ComputePass:
    """Values of the model -> of the working set."""
    return _move("values", False, {})


def step_passes(moments: str, follows: Sequence[str]) -> list[ComputePass]:
    """Passes that a step of Adam needs besides. moments: the file that fills <moments>. follows:
    statistics of splats, rows of the contract."""
    slots = {"moments": moments}
    return [
        _move("moments", False, slots),
        _move("values", True, {"moves": _MOVES}),
        _move("moments", True, slots),
        *(_follow(name, back) for name in follows for back in (False, True)),
    ]


def _follow(name: str, back: bool) -> ComputePass:
    both, spec = ("followed", "moved"), {"BACK": back, "NUMBERS": contract.itemsize(name) // 4}
    title, bind = f"{'put' if back else 'gather'} {name}", {"followed": name}
    bind["moved"] = f"model_{name}"
    reads = ("counts", "working", *both)
    return ComputePass(title, "working/statistics.comp", reads, both, spec, bind=bind)


def record_cull(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Model, camera -> working, counts.splats and counts.wanted."""
    recorder.run(run["cull"], indirect="splat_blocks")
    recorder.run(run["cull scan"], threads=(contract.CONSTANTS["GROUP"],))
    recorder.run(run["cull list"], indirect="splat_blocks")


def record_moves(recorder: Recorder, run: Mapping[str, Pipeline], back: bool, *what: str) -> None:
    """Moves values, moments or statistics of the working set: from the model, or back to it."""
    for name in what:
        whole = name in ("values", "moments")
        work = "splat_blocks" if whole else "splat_groups"
        recorder.run(run[f"{'put' if back else 'gather'} {name}"], indirect=work)
