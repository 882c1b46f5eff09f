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
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.tables.formats import MOMENT_FORMATS

GROUP = int(contract.CONSTANTS["GROUP"])
RANKS = ("flags", "flag_sums")
SCAN = ComputePass(
    "densify scan", "densify/scan.comp", reads=("counts", "flag_sums"), writes=("flag_sums",)
)
NOISE = ComputePass(
    name="noise",
    shader="densify/mcmc/noise.comp",
    reads=(
        "refine_settings",
        "rates",
        "frame",
        "counts",
        "means",
        "quats",
        "log_scales",
        "logit_opacities",
    ),
    writes=("means",),
)
THINNINGS = 5  # turns of the budget strategy in which splats are thinned out


def splat_planes() -> tuple[str, ...]:
    """What moves with a splat: all its numbers and their moments."""
    return *quantities.values(), *quantities.moments()


def slots_of(moments: str) -> dict[str, str]:
    """moments: how they are stored, a variant of MOMENT_FORMATS."""
    return {"moments": MOMENT_FORMATS[moments].slot}


def resize(grown: bool) -> ComputePass:
    """The number of splats after growth, or after pruning."""
    return ComputePass(
        f"densify {'grown' if grown else 'pruned'}",
        "densify/resize.comp",
        reads=("counts", *RANKS),
        writes=("counts", "indirect"),
        spec={"GROWN": grown},
    )


def pruning_passes(moments: str, statistics: str, slot: str, ages: bool) -> tuple[ComputePass, ...]:
    """Passes that make a dense array of flagged splats, which stay. statistics: the buffer of them
    that the strategy keeps. slot: the file that moves these. ages: something is left of them."""
    planes = splat_planes()
    return (
        ComputePass(
            "densify holes", "densify/holes.comp", reads=("counts", *RANKS), writes=("holes",)
        ),
        ComputePass(
            name="densify fill",
            shader="densify/fill.comp",
            reads=("counts", "holes", *((statistics,) if ages else ()), *RANKS, *planes),
            writes=(statistics, *planes),
            slots={**slots_of(moments), "statistics": slot},
        ),
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
    return ComputePass(
        name="reset opacity",
        shader="densify/reset.comp",
        reads=("refine_settings", "counts", "logit_opacities", "adam_logit_opacities"),
        writes=("logit_opacities", "adam_logit_opacities"),
        slots=slots_of(moments),
    )


def record_reset(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Opacities of all splats := at most refine_settings.reset_opa, their moments := 0."""
    recorder.run(run["reset opacity"], indirect="splat_groups")


def record_noise(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Means move by the rate of means * refine_settings.noise_lr * logistic(opacity) * Sigma *
    normal. After Adam, before the step counts up."""
    recorder.run(run["noise"], indirect="splat_groups")


def refine_settings(config: TrainConfig, extent: float) -> np.ndarray:
    """The contract's RefineSettings struct. extent: scene radius, world units.

    The noise is an area times a length: in units of the scene's extent it is alike in metres and in
    centimetres.
    """
    settings, flat = np.zeros((), contract.dtype("RefineSettings")), config.flat()
    for name in (
        "grow_grad2d",
        "grow_scale3d",
        "prune_opa",
        "prune_scale3d",
        "prune_screen",
        "reset_every",
        "reset_opa",
        "min_opacity",
    ):
        settings[name] = flat[name]
    settings["extent"], settings["noise_lr"] = extent, config.densify.mcmc.noise_lr / extent**2
    settings["budget"], settings["first_step"], settings["last_step"] = (
        config.densify.cap_max or 1_000_000,
        config.densify.refine_start_iter,
        config.densify.refine_stop_iter,
    )
    settings["grow_absolute"] = config.densify.budget.grow_absolute
    settings["grow_least"] = (
        min(config.densify.budget.grow_least, config.densify.budget.grow_absolute)
        or config.densify.budget.grow_absolute
    )
    settings["thinned"] = config.densify.budget.prune_to ** (1 / THINNINGS)
    return settings


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
