"""A step that draws depth before the image, with the passes of the image: depth stands in the place of colour for so long.

    project, sort -> depth in the place of colour -> draw -> the loss of depth -> backward draw -> colours again -> draw -> the loss -> backward draw -> the sink

The moments of geometry that both backward draws add up have one place, since they are sums over fragments. What is written by one draw is used up before the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hardsplat import contract
from hardsplat.gpu.passes import ComputePass
from hardsplat.gpu.recorder import Recorder

if TYPE_CHECKING:
    from hardsplat.raster.rasterizer import Trainable

KEPT = ("kept_colors", "d_depths")  # one a splat


def depth_passes() -> list[ComputePass]:
    """Those that change colours for depth and back."""
    shared = ("frame", "counts", "seen", "colors2d")
    return [
        ComputePass("show depth", "depth/show.comp", reads=(*shared, "camera", "means"), writes=("frame", "colors2d", "kept_colors", "kept_frame")),
        ComputePass("show colours", "depth/hide.comp", reads=(*shared, "d_splats2d", "kept_colors", "kept_frame"), writes=("frame", "colors2d", "d_splats2d", "d_depths")),
    ]


def depth_bytes(capacity: int) -> dict[str, int]:
    """Bytes of what those need, by name."""
    return {name: capacity * contract.itemsize(name) for name in KEPT} | {"kept_frame": contract.itemsize("kept_frame")}


def record_deep_step(recorder: Recorder, raster: Trainable, compare: Callable[[Recorder], None], compare_depth: Callable[[Recorder], None]) -> None:
    """compare, compare_depth: record the losses of the image and of depth, target -> d_image."""
    run = raster.pipelines
    raster.projection.record_forward(recorder, run)
    recorder.run(run["show depth"], indirect="splat_groups")
    raster.record_images(recorder)
    compare_depth(recorder)
    raster.record_draw_backward(recorder)
    recorder.run(run["show colours"], indirect="splat_groups")
    raster.record_again(recorder)
    compare(recorder)
    raster.record_backward(recorder)
