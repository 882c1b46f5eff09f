"""Adaptive density control on the GPU: splats clone, split and die in place, the number of them never leaves the GPU.

Kerbl et al. 2023, section 5.2, with the semantics of Inria's `densify_and_prune`. Deterministic: ranks come from prefix sums, random numbers
from a hash of (seed, step, splat).

Inria's code prunes by screen radius right after growth has cleared all radii, which disables that test, and gsplat leaves it out: so does the
default here. `prune_screen = 20`, as published, looks at the radius since the last densification; splats made just now have none yet. It takes
the large splats of the background again and again (docs/RESULTS.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardsplat import contract, trained
from hardsplat.config import TrainConfig
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, allocate_all
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.variants.moments import MOMENT_FORMATS

GROUP = contract.CONSTANTS["GROUP"]
RANKS = ("flags", "flag_sums")
SCAN = ComputePass("densify scan", "densify/scan.comp", reads=("counts", "flag_sums"), writes=("flag_sums",))


def splat_row() -> tuple[str, ...]:
    """What moves with a splat: all its numbers and their moments."""
    return *trained.values(), *trained.moments()


def densify_passes(moments: str = "float32") -> tuple[ComputePass, ...]:
    """moments: how they are stored, a variant of MOMENT_FORMATS."""
    row, slots = splat_row(), {"moments": MOMENT_FORMATS[moments].slot}
    resized = ComputePass("densify grown", "densify/resize.comp", reads=("counts", *RANKS), writes=("counts", "indirect"), spec={"GROWN": True})
    return (
        ComputePass("densify decide", "densify/decide.comp", reads=("refine_settings", "counts", "grow_stats"), writes=RANKS),
        SCAN,
        ComputePass(
            name="densify grow",
            shader="densify/grow.comp",
            reads=("refine_settings", "frame", "counts", *RANKS, *row),
            writes=("grow_stats", *row),
            slots=slots,
        ),
        resized,
        ComputePass(
            name="densify survey",
            shader="densify/survey.comp",
            reads=("refine_settings", "frame", "counts", "grow_stats", *trained.values()),
            writes=RANKS,
        ),
        ComputePass("densify holes", "densify/holes.comp", reads=("counts", *RANKS), writes=("holes",)),
        ComputePass(
            name="densify fill",
            shader="densify/fill.comp",
            reads=("counts", "holes", *RANKS, *row),
            writes=("grow_stats", *row),
            slots=slots,
        ),
        replace(resized, name="densify pruned", spec={"GROWN": False}),
    )


def reset_passes(moments: str = "float32") -> tuple[ComputePass, ...]:
    return (
        ComputePass(
            name="reset opacity",
            shader="densify/reset.comp",
            reads=("refine_settings", "counts", "logit_opacities", "adam_logit_opacities"),
            writes=("logit_opacities", "adam_logit_opacities"),
            slots={"moments": MOMENT_FORMATS[moments].slot},
        ),
    )


def refine_settings(config: TrainConfig, extent: float) -> np.ndarray:
    """The contract's RefineSettings struct. extent: scene radius, world units.

    The noise is an area times a length: in units of the scene's extent it is alike in metres and in centimetres.
    """
    row = np.zeros((), contract.dtype("RefineSettings"))
    for name in ("grow_grad2d", "grow_scale3d", "prune_opa", "prune_scale3d", "prune_screen", "reset_every", "reset_opa", "min_opacity"):
        row[name] = getattr(config, name)
    row["extent"], row["noise_lr"] = extent, config.noise_lr / extent**2
    return row


def allocate_densify(device: Device, capacity: int) -> dict[str, Buffer]:
    """Scratch for up to `capacity` splats, which is the capacity that `counts` must hold: 8 bytes a splat."""
    sizes = {"flags": capacity, "flag_sums": -(-capacity // GROUP) + 1, "holes": capacity}
    return allocate_all(device, {name: n * contract.itemsize(name) for name, n in sizes.items()})


def record_plan(recorder: Recorder, run: dict[str, Pipeline]) -> None:
    """grow_stats -> flag_sums, whose element ceil(splats / GROUP) is then the number of splats that record_densify would add."""
    recorder.run(run["densify decide"], indirect="splat_groups")
    recorder.run(run["densify scan"], threads=(GROUP,))


def record_densify(recorder: Recorder, run: dict[str, Pipeline]) -> None:
    """Parameters, moments, grow_stats, counts.splats and indirect.splat_groups (as a step leaves them) -> the same, grown and pruned.

    Statistics start anew. counts.wanted is the number that growth asked for; what found no room within counts.capacity stayed as it was.
    """
    splats = "splat_groups"
    record_plan(recorder, run)
    recorder.run(run["densify grow"], indirect=splats)
    recorder.run(run["densify grown"], threads=(1,))
    recorder.run(run["densify survey"], indirect=splats)
    recorder.run(run["densify scan"], threads=(GROUP,))
    recorder.run(run["densify holes"], indirect=splats)
    recorder.run(run["densify fill"], indirect=splats)
    recorder.run(run["densify pruned"], threads=(1,))


def record_reset(recorder: Recorder, run: dict[str, Pipeline]) -> None:
    """Opacities of all splats := at most refine_settings.reset_opa, their moments := 0."""
    recorder.run(run["reset opacity"], indirect="splat_groups")
