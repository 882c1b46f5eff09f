"""Pictures for people: `target` of a picture of app/hardsplat/tables/pictures.py -> RGBA8 in
`shown`, and the numbers behind it in `values`; images to tensors of other libraries and back."""

from __future__ import annotations

from functools import partial

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all, destroy_all
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import build
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import PICTURES

# of the window of a fit, see app/hardsplat/view/fit_preview.py
FIT_SCREEN_PASS = ComputePass(
    "screen of a fit",
    "picture/screen_fit.comp",
    reads=("target", "frame", "window_shown"),
    writes=("screen",),
)


TENSOR_PASSES = (
    ComputePass("image out", "picture/image_out.comp", ("target", "camera"), ("image_out",)),
    ComputePass(
        "d_image in", "picture/d_image_in.comp", ("d_image_in", "camera", "target"), ("d_image",)
    ),
)


def show_pass(picture: str, transparent: bool = False) -> ComputePass:
    """transparent: shown has straight alpha, else the background behind everything."""
    row, spec = PICTURES[picture], {"TRANSPARENT": transparent}
    if not row.numbers:
        return ComputePass(
            "show", "picture/colors.comp", reads=("target", "frame"), writes=("shown",), spec=spec
        )
    return ComputePass(
        "show",
        "picture/numbers.comp",
        ("target", "frame", "palette"),
        ("shown", "values"),
        {**spec, "PICTURE": row.number},
    )


def allocate_show(device: Device, width: int, height: int) -> dict[str, Buffer | Image]:
    """`shown`, `values` and `palette` for a canvas of width x height px."""
    out = allocate_all(device, contract.nbytes({"values": width * height, "palette": 1}))
    format = FORMATS["unorm8"]
    with undone(partial(destroy_all, out)):
        return out | {"shown": Image(device, width, height, format.vk, format.texel, "shown")}


def record_show(
    recorder: Recorder, picture: str, width: int, height: int, transparent: bool = False
) -> None:
    """target, frame, palette -> shown, values; on a canvas of width x height px."""
    recorder.run(build(recorder.device, show_pass(picture, transparent)), threads=(width, height))


def palette_data(picture: str, span: tuple[float, float] | None = None) -> np.ndarray:
    """The contract's Palette struct. span: numbers with the first and last colour, by default the
    picture's own or 0 to 1."""
    from matplotlib import colormaps  # takes a while

    row, out = PICTURES[picture], np.zeros((), contract.dtype("Palette"))
    low, high = np.array(span or row.range or (0.0, 1.0), np.float32)
    out["low"], out["high"] = low, max(high, np.nextafter(low, np.float32(np.inf)))
    out["colors"] = colormaps[row.palette](np.arange(256), bytes=True).view(np.uint32)[:, 0]
    return out
