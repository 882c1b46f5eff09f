"""Gradients without an order of fragments and without chance: what lies in front of a splat within its depth segment is guessed from the splat's rank there.

The forward draw blends depth segments on canvases of their own, so T and colour at the borders of a segment are exact at each pixel. Between them a splat takes its share of
the segment's splats in front of it for its share of the segment's optical depth in front of it (shaders/samples/between.frag). There is no noise; the error falls with the
number of segments. No interlock, no rasterization order, no samples: one draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardsplat.gpu.context import Device
from hardsplat.gpu.graphics import DepthTest
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.blocked import Blocked
from hardsplat.raster.draws import canvas_of, outline, sums, with_unfinished
from hardsplat.raster.projection import for_score, scored
from hardsplat.raster.sinks import SCORES


@dataclass(frozen=True)
class Between(Blocked):
    """Of a canvas of width x height px in depth segments. threshold: contributing lanes of a subgroup from which it is summed whole. scores: with draws of SCORES."""

    segments: int
    threshold: int
    scores: bool = False

    def passes(self) -> list[ComputePass | DrawPass]:
        rows, block, (across, down) = self.rows, self.rows.block, self._blocks
        blocks = {"BLOCK_W": block.width, "BLOCK_H": block.height, "BLOCKS_X": across, "BLOCKS_Y": down}
        known, weight, segments = {"known": rows.state_format.known}, {"LEAST_WEIGHT": rows.least_weight}, rows.layers(self.segments)
        layers = rows.layers_bound(self.segments)
        begin = ComputePass("draw backward begin", "samples/between.comp", ("layers", "frame", "d_image"), ("d_image", "samples"), {**blocks, **segments}, known, bind=layers)
        unfinished = DrawPass(
            name="draw backward unfinished",
            vertex="draw/canvas.vert",
            fragment="samples/between_unfinished.frag",
            reads=("samples",),
            writes=("unfinished",),
            depth=DepthTest("unfinished", "less or equal", clear=1.0),
            spec={**blocks, **weight, "LEAST": rows.least_transmittance},
            slots=known,
        )
        slots, limit = sums(rows, self.threshold)
        backward = DrawPass(
            **outline(rows.shape),
            name="draw backward",
            fragment="samples/between.frag",
            reads=("counts", "splats2d", "colors2d", "order", "d_image", "samples", "d_splats2d", "unfinished"),
            writes=("d_splats2d",),
            depth=DepthTest("unfinished", "less", writes=False),
            spec={**canvas_of(rows, across * block.width, down * block.height, self.segments), **limit, **blocks, **weight, "RANKED": True},
            slots={**slots, **known},
        )
        return [begin, unfinished, *(for_score(begin, name) for name in SCORES if self.scores), *scored(backward, self.scores)]

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        across, down = self._blocks
        n = self.segments * across * down
        samples = Buffer(device, 16 * n * -(-self.rows.block.pixels * self.rows.state_format.packed // 8), "samples")
        return with_unfinished(device, {"samples": samples}, across, down * self.segments)

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, the forward draw's target or layers, order -> d_splats2d."""
        across, down = self._blocks
        tall = (across, down * self.segments)
        recorder.run(run[f"draw backward begin{score}"], threads=(across, down))
        recorder.run(run["draw backward unfinished"], threads=(3,), extent=tall)
        recorder.run(run[f"draw backward{score}"], indirect="draw", extent=tall)
