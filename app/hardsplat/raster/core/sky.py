"""The sky: colours of directions behind all splats, optimized with them.

`sky` of the trained table has the texels of a square that the octahedral map makes of all
directions (model/sky.py). A pass puts it behind the drawn image, before anything reads that, so
losses, backward draws and pictures see it as the image. Its gradient, T dL/dC, is summed in
integers, so it does not depend on the order of pixels.
"""

from __future__ import annotations

from collections.abc import Mapping

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.tables.photographs import LENSES


def behind_pass(lens: str, image: str = "target", first_row: int = 0) -> ComputePass:
    """Puts the sky behind an image, from that row on. lens: a variant of LENSES. image: `target`,
    or `layers` whose last canvas begins there."""
    return ComputePass(
        "sky",
        "sky/behind.comp",
        reads=("camera", "sky", "layers"),
        writes=("target",),
        spec={"FIRST_ROW": first_row},
        slots={"lens": LENSES[lens].slot},
        bind={"layers": image, "target": image},
    )


def gather_passes(lens: str) -> list[ComputePass]:
    """d_image, target, camera -> gradients of the sky."""
    slots, sums = {"lens": LENSES[lens].slot}, ("sky_sums",)
    gather = ("camera", "target", "d_image", *sums)
    settled = (*sums, "sky", "d_sky")
    return [
        ComputePass("sky gather", "sky/gather.comp", gather, sums, slots=slots),
        ComputePass("sky settle", "sky/settle.comp", ("camera", "sky", *sums), settled),
    ]


def record_gather(
    recorder: Recorder, run: Mapping[str, Pipeline], width: int, height: int, texels: int
) -> None:
    """d_image, target, camera -> gradients of the sky. width, height: of the canvas, px."""
    recorder.run(run["sky gather"], threads=(width, height))
    recorder.run(run["sky settle"], threads=(texels,))


def allocate_sums(device: Device, texels: int) -> Buffer:
    """What gather_passes need; zero between steps."""
    buffer = Buffer(device, 4 * texels * contract.itemsize("sky_sums"), "sky_sums")
    buffer.fill(0)
    return buffer
