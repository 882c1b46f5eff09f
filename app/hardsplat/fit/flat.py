"""The projection of blobs, in the order of their rows, and the sinks of their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.projection import PlainProjection, allocate_drawn
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.core.sort import RADIX, SORT_PASSES

STORE = Sink(True, {"sink": "fits/image/sink_store.glsl"}, ("blobs",), ("d_blobs",))
ADAM = Sink(
    False,
    {"sink": "fits/image/sink_adam.glsl"},
    ("adam_settings", "rates", "frame", "blobs", "adam_blobs"),
    ("blobs", "adam_blobs"),
)


@dataclass(frozen=True)
class Flat(PlainProjection):
    """The projection of blobs, which are on the image already. All are drawn in the order of their
    rows, so there is nothing to sort."""

    sink: Sink

    differentiates = True

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        sink, reads = self.sink, ("blobs", "camera", "counts")
        ordered = ("counts", "indirect", "order")
        taken = ("counts", "colors2d", "d_splats2d", *sink.reads)
        given = ("d_splats2d", *sink.writes)
        return [
            SORT_PASSES[0],
            ComputePass("fit order", "fits/image/order.comp", ("counts",), ordered, command),
            ComputePass("fit project", "fits/image/project.comp", reads, ("splats2d", "colors2d")),
            ComputePass("fit sink", "fits/image/sink.comp", taken, given, slots=sink.slots),
        ]

    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]:
        numbers = {"order": capacity, "digit_totals": RADIX}  # the latter for the sort of tiles
        sizes = {name: n * contract.itemsize(name) for name, n in numbers.items()}
        return allocate_drawn(device, capacity, self.sink, sizes)

    def record_begin(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """counts.splats -> order, counts.visible, work sizes. Once for a number of blobs."""
        recorder.run(run["sizes"], threads=(1,))
        recorder.run(run["fit order"], indirect="splat_groups")

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        recorder.run(run["fit project"], indirect="splat_groups")

    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int
    ) -> None:
        recorder.run(run["fit sink"], indirect="splat_groups")
