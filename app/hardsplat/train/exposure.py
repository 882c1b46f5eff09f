"""Exposure and colour of photographs in a training step: two passes around the loss, and what their numbers become.

    target -> exposed -> the loss -> d_image of the exposed image -> d_image of the rendered one, and gradients of photographs and cameras

The splats are those of the mean photograph: what all photographs have in common is moved into the scene after each step, so renders and files need none of this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hardsplat import contract, trained
from hardsplat.errors import UserError
from hardsplat.files import replacing
from hardsplat.gpu.context import Device
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.trained import Of
from hardsplat.variants.exposures import EXPOSURES

NAME = "exposures.json"
_CENTRED: tuple[Of, ...] = ("photograph", "camera")  # kinds whose planes follow each other in the table
GROUP, GROUPS = contract.CONSTANTS["GROUP"], contract.CONSTANTS["EXPOSURE_GROUPS"]


def exposure_passes(name: str, cameras: int = 2) -> tuple[ComputePass, ...]:
    """The passes of a variant of EXPOSURES; none where the image stays as it is. cameras: the only one has no response, which is kept at a mean of 0."""
    row = EXPOSURES[name]
    if not row.slot:
        return ()
    values, gradients = (tuple(what(q) for q in row.quantities) for what in (lambda q: q.name, lambda q: q.d))
    seen, slots, spec = ("camera", "frame", "target", *values), {"exposure": row.slot}, {"RESPONDS": cameras > 1} if row.responds else {}
    return (
        ComputePass("expose", "exposure/forward.comp", reads=seen, writes=("exposed",), spec=spec, slots=slots),
        ComputePass("expose backward", "exposure/backward.comp", reads=(*seen, "d_image"), writes=("d_image", "exposure_sums"), spec=spec, slots=slots),
        ComputePass("expose gather", "exposure/gather.comp", reads=("camera", "frame", "exposure_sums", *values), writes=gradients, spec=spec, slots={**slots, "chain": row.chain}),
    )


def centre_pass() -> ComputePass:
    """Keeps the means of photographs' and cameras' numbers at 0 that the table says so of."""
    names = tuple(q.name for kind in _CENTRED for q in trained.of(kind) if q.centred)
    return ComputePass("centre", "optim/centre.comp", reads=("rates", *names), writes=names, spec={"FIRST_PLANE": trained.plane_count("splat")})


def allocate_exposure(device: Device, target: Image) -> dict[str, Buffer | Image]:
    """`exposed`, of the size and format of the target, and `exposure_sums`."""
    sums = Buffer(device, GROUPS * contract.CONSTANTS["EXPOSURE_SUMS"] * contract.itemsize("exposure_sums"), "exposure_sums")
    try:
        return {"exposure_sums": sums, "exposed": Image(device, target.width, target.height, target.format, target.texel, "exposed")}
    except BaseException:
        sums.destroy()
        raise


def record_exposed(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """target, camera, frame -> exposed."""
    recorder.run(run["expose"], threads=(2 * GROUPS * GROUP,))


def record_exposed_backward(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """d_image of `exposed` -> d_image of `target`, and gradients of the photograph's and the camera's numbers."""
    recorder.run(run["expose backward"], threads=(GROUPS * GROUP,))
    recorder.run(run["expose gather"], threads=(GROUP,))


def record_centred(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """After a step of Adam."""
    recorder.run(run["centre"], groups=(sum(trained.plane_count(kind) for kind in _CENTRED), 1, 1))


def save_exposures(path: Path, name: str, buffers: Mapping[str, np.ndarray], photographs: Sequence[str]) -> None:
    """exposures.json: what was learnt of each photograph, by its name, and of each camera. Numbers are as trained, 0 where the image stays as it is.

    buffers: (planes, items, width) by quantity, as checkpoints have them. Raises UserError where the file cannot be written.
    """
    table: dict = {"exposure": name, "photographs": {p: {} for p in photographs}, "cameras": []}
    for q in EXPOSURES[name].quantities:
        n = buffers[q.name].shape[1]
        if q.of == "camera":
            table["cameras"] = table["cameras"] or [{} for _ in range(n)]
        items = list(table["photographs"].values()) if q.of == "photograph" else table["cameras"]
        for item, values in zip(items, buffers[q.name].transpose(1, 0, 2).tolist(), strict=True):
            item[q.name] = values if len(values) > 1 else values[0]
    try:
        with replacing(path) as partial:
            partial.write_text(json.dumps(table, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
