"""Exposure and colour of photographs in a training step: what the loss compares, and what their
numbers become.

The passes of the loss see `target` as its photograph was exposed, and leave the gradient by the
image as it was rendered. They also leave sums over the pixels of each workgroup, from which a pass
makes the gradients of the photograph's and the camera's numbers.

The splats are those of the mean photograph: what all photographs have in common is moved into the
scene after each step, so renders and files need none of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hardsplat.gpu.passes.declared import ComputePass, Fill
from hardsplat.results.folder import write_json
from hardsplat.tables import quantities
from hardsplat.tables.photographs import EXPOSURES
from hardsplat.tables.quantity import Of

NAME = "exposures.json"
CENTRED: tuple[Of, ...] = ("photograph", "camera")  # their planes follow each other in the table


def exposure_fills(name: str, cameras: int = 2) -> list[Fill]:
    """How the loss sees the image. name: a variant of EXPOSURES. cameras: how many there are; the
    only one has no response, which is kept at a mean of 0."""
    row = EXPOSURES[name]
    if not row.slot:
        return []
    slots = {"seen": "photographs/exposure/seen.glsl", "exposure": row.slot}
    reads, spec = tuple(q.name for q in row.quantities), _responds(name, cameras)
    result = slots | {"result": "photographs/exposure/result.glsl"}
    return [
        Fill("loss ssim", slots, reads, spec=spec),
        Fill("loss gradient", result, reads, ("exposure_sums",), spec),
    ]


def _responds(name: str, cameras: int) -> dict[str, int]:
    return {"RESPONDS": cameras > 1} if EXPOSURES[name].responds else {}


def exposure_passes(name: str, cameras: int = 2) -> tuple[ComputePass, ...]:
    """What follows the loss; nothing where the image stays as it is. name, cameras: as for
    exposure_fills."""
    row = EXPOSURES[name]
    if not row.slot:
        return ()
    return (
        ComputePass(
            "expose gather",
            "photographs/exposure/gather.comp",
            reads=("camera", "frame", "exposure_sums", *(q.name for q in row.quantities)),
            writes=tuple(q.d for q in row.quantities),
            spec=_responds(name, cameras),
            slots={"exposure": row.slot, "chain": row.chain},
        ),
    )


def centre_pass() -> ComputePass:
    """Keeps the means of photographs' and cameras' numbers at 0 that the table says so of."""
    names = tuple(q.name for kind in CENTRED for q in quantities.of(kind) if q.centred)
    spec = {"FIRST_PLANE": quantities.plane_count("splat")}
    return ComputePass("centre", "optim/centre.comp", ("rates", *names), names, spec)


def save_exposures(
    path: Path, name: str, buffers: Mapping[str, np.ndarray], photographs: Sequence[str]
) -> None:
    """exposures.json: what was optimized of each photograph, by its name, and of each camera.
    Numbers are as trained, 0 where the image stays as it is.

    buffers: (planes, items, width) by quantity, as checkpoints have them. Raises UserError where
    the file cannot be written.
    """
    table: dict = {"exposure": name, "photographs": {p: {} for p in photographs}, "cameras": []}
    for q in EXPOSURES[name].quantities:
        n = buffers[q.name].shape[1]
        if q.of == "camera":
            table["cameras"] = table["cameras"] or [{} for _ in range(n)]
        items = list(table["photographs"].values()) if q.of == "photograph" else table["cameras"]
        for item, values in zip(items, buffers[q.name].transpose(1, 0, 2).tolist(), strict=True):
            item[q.name] = values if len(values) > 1 else values[0]
    write_json(path, table)
