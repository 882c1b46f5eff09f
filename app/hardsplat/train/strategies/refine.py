"""What strategies of densification share: settings, scratch, ranks of flagged splats, the splats
that are removed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.settings.densify import DensifySettings
from hardsplat.tables import quantities
from hardsplat.tables.formats import MOMENT_FORMATS

GROUP = int(contract.CONSTANTS["GROUP"])
RANKS = ("flags", "flag_sums")
THINNINGS = 5  # prunings in which the budget strategy comes down to `prune_to`
SCAN = ComputePass("densify scan", "densify/scan.comp", ("counts", "flag_sums"), ("flag_sums",))
_DRIFTING = ("means", "quats", "log_scales", "logit_opacities")
_NOISE_READS = ("refine_settings", "rates", "frame", "counts", *_DRIFTING)
NOISE = ComputePass("noise", "densify/mcmc/noise.comp", _NOISE_READS, ("means",))
_FADED = ("logit_opacities", "adam_logit_opacities")
# of the contract's RefineSettings, settings of the same name
_SAME = ["prune_opa", "grow_grad2d", "grow_scale3d", "grow_absolute", "reset_every"]
# mean absolute gradient, NDC, down to which splats may split where those above `grow_absolute` are
# fewer than there is room for
GROW_LEAST = 7.5e-5
RESET_OPACITY = 0.01  # the most that a reset leaves


def splat_planes() -> tuple[str, ...]:
    """What moves with a splat: all its numbers and their moments."""
    return *quantities.values(), *quantities.moments()


def slots_of(moments: str) -> dict[str, str]:
    """moments: how they are stored, a variant of MOMENT_FORMATS."""
    return {"moments": MOMENT_FORMATS[moments].slot}


def resize(grown: bool) -> ComputePass:
    """The number of splats after growth, or after pruning."""
    name, spec = f"densify {'grown' if grown else 'pruned'}", {"GROWN": grown}
    reads, writes = ("counts", *RANKS), ("counts", "indirect")
    return ComputePass(name, "densify/resize.comp", reads, writes, spec)


def pruning_passes(moments: str, statistics: str, slot: str, ages: bool) -> tuple[ComputePass, ...]:
    """Passes that make a dense array of flagged splats, which stay. statistics: the buffer of them
    that the strategy keeps. slot: the file that moves these. ages: something is left of them."""
    planes, slots = splat_planes(), {**slots_of(moments), "statistics": slot}
    reads = ("counts", "holes", *((statistics,) if ages else ()), *RANKS, *planes)
    return (
        ComputePass("densify holes", "densify/holes.comp", ("counts", *RANKS), ("holes",)),
        ComputePass("densify fill", "densify/fill.comp", reads, (statistics, *planes), slots=slots),
        resize(grown=False),
    )


def record_pruning(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """flags and flag_sums of the living, as densify/mark.glsl makes them -> counts.splats and what
    follows from it; places of the living alone."""
    recorder.run(run["densify scan"], threads=(GROUP,))
    recorder.run(run["densify holes"], indirect="splat_groups")
    recorder.run(run["densify fill"], indirect="splat_groups")
    recorder.run(run["densify pruned"], threads=(1,))


def reset_pass(moments: str) -> ComputePass:
    reads, slots = ("refine_settings", "counts", *_FADED), slots_of(moments)
    return ComputePass("reset opacity", "densify/reset.comp", reads, _FADED, slots=slots)


def record_reset(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Opacities of all splats := at most RESET_OPACITY, their moments := 0."""
    recorder.run(run["reset opacity"], indirect="splat_groups")


def budget_of(settings: DensifySettings) -> int:
    """Splats at the end of growth."""
    return settings.cap_max or 1_000_000


def refine_settings(settings: DensifySettings, extent: float) -> np.ndarray:
    """The contract's RefineSettings struct. extent: scene radius, world units.

    The noise is an area times a length: in units of the scene's extent it is alike in metres and in
    centimetres.
    """
    flat, most = settings.flat(), settings.budget.grow_absolute
    return contract.struct(
        "RefineSettings",
        **{name: flat[name] for name in _SAME},
        extent=extent,
        noise_lr=settings.mcmc.noise_lr / extent**2,
        budget=budget_of(settings),
        first_step=settings.refine_start_iter,
        last_step=settings.refine_stop_iter,
        grow_least=min(GROW_LEAST, most),
        reset_opacity=RESET_OPACITY,
        thinned=settings.budget.prune_to ** (1 / THINNINGS),
    )


def allocate_refine(device: Device, capacity: int) -> dict[str, Buffer]:
    """Scratch for up to `capacity` splats, which is the capacity that `counts` must hold: 8 bytes a
    splat. ticket_counts and turn are zero."""
    sizes = {
        "flags": capacity,
        "flag_sums": -(-capacity // GROUP) + 1,
        "holes": capacity,
        "ticket_counts": int(contract.CONSTANTS["TICKETS"]),
        "admitted": 1,
        "turn": 1,
    }
    buffers = allocate_all(device, {name: n * contract.itemsize(name) for name, n in sizes.items()})
    for name in ("ticket_counts", "turn"):
        buffers[name].fill(0)
    return buffers
