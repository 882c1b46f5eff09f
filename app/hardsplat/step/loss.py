"""The image loss of training and the metrics of evaluation, both on the GPU: `target` against the
photograph at `camera.photo`.

Loss: the weighted sum of the terms in hardsplat.tables.loss_terms, L1 and D-SSIM (Kerbl et al.
2023, equation 7; SSIM zero-padded as their trainer does) and what parameters have. Metrics: PSNR
and SSIM as torchmetrics defines them for data range 1: SSIM reflected at the border and averaged
over the whole image, here of renderings clamped to 0..1. One shader measures both.

Pixels that a mask leaves out (IGNORED in `photos`) read as black in both images and no window is
centred on them, as if they lay beyond the border. The loss counts them as matched: it stays a mean
over all pixels, so a view weighs as much as it shows. Metrics are means over the rest.

The image (camera.size) may be smaller than the canvas, whose width and height the functions below
take. Memory: 36 bytes a pixel of the canvas for `ssim_grads`, 16 for `d_image`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError, undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all, buffer_in, destroy_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.model.camera import Camera
from hardsplat.tables import quantities
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.loss_terms import LOSS_TERMS, PIXELS, ordered, pixel_terms
from hardsplat.tables.quantities import Of

# a workgroup of TILE x TILE threads measures TILE x 2 TILE pixels, see shaders/include/ssim.glsl
_TILE, _GROUP = contract.CONSTANTS["TILE"], contract.CONSTANTS["GROUP"]
_COMPARED = ("target", "photos", "camera", "frame")
_SUMS = ("ssim_grads", "loss_sums")


def weighed(settings: Mapping[str, Any], extent: float = 1.0) -> int:
    """Bits of the terms of pixels that have a weight, as `loss_passes` takes them."""
    terms = (LOSS_TERMS[name] for name in pixel_terms())
    return sum(bool(term.weight(settings, extent)) << i for i, term in enumerate(terms))


def loss_passes(
    photo_bytes: int = 4, differences: bool = False, terms: int = 2**32 - 1
) -> tuple[ComputePass, ...]:
    """photo_bytes: of a pixel in `photos`, 3 or 4. differences: for stochastic gradients, `target`
    against `target_minus`, pixel by pixel, instead of the derivative; the record is of `target`.
    terms: bits of those of pixels that are computed; the record has 0 of others."""
    spec = {"PHOTO_BYTES": photo_bytes, "WEIGHED": terms}
    result = "loss/result_derivative.glsl"
    reads: tuple[str, ...] = (*_COMPARED, "ssim_grads", "loss_terms")
    writes = ("d_image",)
    if differences:
        result, writes = "loss/result_difference.glsl", ("loss_differences",)
        reads = (*reads, "target_minus")
    return (
        ComputePass("loss ssim", "loss/ssim.comp", _COMPARED, _SUMS, spec),
        ComputePass("loss gradient", "loss/gradient.comp", reads, writes, spec, {"result": result}),
        ComputePass(
            "loss reduce",
            "loss/reduce.comp",
            ("loss_sums", "camera", "frame", "counts"),
            ("history",),
        ),
    )


LOSS_PASSES = loss_passes()
SQUARED_PASSES = (
    ComputePass("loss squared", "loss/squared.comp", _COMPARED, ("d_image", "loss_sums")),
    LOSS_PASSES[-1],
)
METRIC_PASSES = (ComputePass("metrics", "loss/ssim.comp", _COMPARED, _SUMS, {"METRIC": True}),)
# What fits colours, and metrics of the fitted image.
FITTED_PASSES = (
    ComputePass("color moments", "loss/fitted/moments.comp", _COMPARED, ("color_moments",)),
    ComputePass(
        "fitted metrics",
        "loss/ssim.comp",
        (*_COMPARED, "color_map"),
        _SUMS,
        {"METRIC": True},
        {"seen": "loss/fitted/seen.glsl"},
    ),
)


def loss_terms(
    settings: Mapping[str, Any],
    extent: float = 1.0,
    items: Mapping[Of, int] | None = None,
    sh_degree: int = 0,
    capacity: int = 0,
) -> np.ndarray:
    """The contract's LossTerms struct. settings: have what the weights of LOSS_TERMS ask for.
    items: how many photographs and cameras there are.

    capacity: of splats. term_sums must have `regions_of` times as many floats as there are groups.
    """
    data = np.zeros((), contract.dtype("LossTerms"))
    counts = {"photograph": 0, "camera": 0, "texel": 0, **(items or {}), "splat": 0}
    first = 0
    for i, name in enumerate(ordered()):
        term = LOSS_TERMS[name]
        data["weight"][i] = term.weight(settings, extent)
        if term.of != PIXELS:
            q = quantities.QUANTITIES[term.of]
            data["first"][i], data["regions"][i] = first, q.planes(sh_degree)
            data["width"][i], data["items"][i] = q.width, counts[q.of]
            first += q.planes(sh_degree)
    data["groups"] = -(-max(capacity, *counts.values()) // _GROUP)
    return data


def term_sums_bytes(data: np.ndarray) -> int:
    """Bytes of `term_sums` for a LossTerms struct."""
    return int(data["regions"].sum()) * int(data["groups"]) * contract.itemsize("term_sums")


def tiles(width: int, height: int) -> int:
    """Workgroups of the loss on a canvas."""
    return -(-width // _TILE) * -(-height // (2 * _TILE))


def _sums(width: int, height: int) -> int:
    """Numbers in loss_sums."""
    return (len(pixel_terms()) + 1) * tiles(width, height)


def check_loss(device: Device) -> None:
    """UserError where the device has not what the loss and the metrics take."""
    if missing := device.capabilities.missing(("shared_memory",)):
        raise UserError(
            f"{device.name} draws, but neither trains nor measures images: it lacks "
            f"{', '.join(missing)}; choose another --device (see hardsplat doctor)"
        )


def allocate_loss(
    device: Device, width: int, height: int, differences: bool = False, squared: bool = False
) -> dict[str, Buffer | Image]:
    """`ssim_grads`, `loss_sums` and `d_image` for a canvas; or, of differences, `loss_differences`
    instead of the last. squared: what SQUARED_PASSES need."""
    check_loss(device)
    sizes = {"ssim_grads": 9 * width * height, "loss_sums": _sums(width, height)}
    if differences:
        sizes["loss_differences"] = width * height
    needs = metric_bytes(width, height) if squared else contract.nbytes(sizes)
    buffers: dict[str, Buffer | Image] = {**allocate_all(device, needs)}
    if not differences:
        with undone(partial(destroy_all, buffers)):
            form = FORMATS["float32"].vk
            buffers["d_image"] = Image(device, width, height, form, np.float32, "d_image")
    return buffers


def record_loss(recorder: Recorder, run: Mapping[str, Pipeline], width: int, height: int) -> None:
    """target, photos, camera, frame, loss_terms, counts -> d_image (zero outside camera.size) and
    history[frame.step % HISTORY]. By SQUARED_PASSES the loss is the mean of (x - y)^2, which takes
    no loss_terms, and the record has no SSIM."""
    first, *last = ("loss squared",) if "loss squared" in run else ("loss ssim", "loss gradient")
    recorder.run(run[first], threads=(width, -(-height // 2)))
    recorder.run(run["loss reduce"], threads=(_GROUP,))  # at once with the next one
    for name in last:
        recorder.run(run[name], threads=(width, -(-height // 2)))


def metric_bytes(width: int, height: int) -> dict[str, int]:
    """Bytes of what METRIC_PASSES need for a canvas. They bind `ssim_grads` but leave it alone, so
    the smallest buffer does."""
    return contract.nbytes({"ssim_grads": 1, "loss_sums": _sums(width, height)})


def record_metrics(
    recorder: Recorder, run: Mapping[str, Pipeline], width: int, height: int, fitted: bool = False
) -> None:
    """target, photos, camera, frame -> loss_sums, for read_metrics. fitted: through color_map."""
    pipeline = run["fitted metrics" if fitted else "metrics"]
    recorder.run(pipeline, threads=(width, -(-height // 2)))


def read_metrics(
    resources: Mapping[str, Buffer | Image], camera: Camera, kept: int | None = None
) -> tuple[float, float]:
    """(PSNR in dB, mean SSIM) of the last submission of record_metrics, which must be done. PSNR is
    120 for equal images: JSON holds no infinite number.

    kept: pixels that are not IGNORED, over which both are means; all by default.
    """
    numbers, n = len(pixel_terms()) + 1, _sums(camera.width, camera.height)
    rows = buffer_in(resources, "loss_sums").download(np.float32, n).reshape(-1, numbers)
    pixels = camera.width * camera.height if kept is None else kept
    squared_error, *terms = rows.sum(0, dtype=np.float64) / (3 * pixels)
    psnr = -10 * math.log10(max(squared_error, 1e-12))
    return psnr, float(1 - terms[pixel_terms().index("dssim")])
