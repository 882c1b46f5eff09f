"""Gradients by taking the finished image apart, splat by splat: a draw front to back, whose
fragments keep their order.

Yuan & He, "Efficient Differentiable Hardware Rasterization for 3D Gaussian Splatting", 2025 (arXiv
2505.18764).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.raster.core.projection import for_score, scored
from hardsplat.raster.core.sinks import SCORES
from hardsplat.raster.hardware.blocked import Blocked
from hardsplat.raster.hardware.draws import (
    UNFINISHED,
    begin_blocks,
    canvas_of,
    macros,
    outline,
    sums,
    unfinished_draw,
    with_unfinished,
)


@dataclass(frozen=True)
class Ordered(Blocked):
    """Draws of ordered fragments, on a canvas of width x height px."""

    @property
    def lists(self) -> None:
        return None

    @property
    def _rejects(self) -> bool:
        """Whether segments leave blocks out that those in front of them have finished."""
        return self.segments > 1 and self.rows.block.pixels > 1

    def passes(self) -> list[ComputePass | DrawPass]:
        rows, canvas = self.rows, canvas_of(self.rows, self.width, self.height, self.segments)
        slots, limit = sums(rows, self.threshold)
        draw = DrawPass(
            **outline(rows.shape),
            name="draw backward",
            fragment="draw/ordered/backward.frag",
            reads=("counts", "splats2d", "colors2d", "order", "d_image", "state", "d_splats2d"),
            writes=("state", "d_splats2d"),
            attachment="state" if rows.ordering.attachment else None,
            format=rows.state_format.vk,
            in_order=rows.ordering.attachment,
            spec={**canvas, **limit},
            slots={**slots, "order": rows.ordering.slot},
            macros=macros(rows, rows.state_format),
        )
        if rows.block.pixels == 1:
            return [
                ComputePass(
                    "begin backward",
                    "draw/ordered/begin_backward.comp",
                    reads=("layers", "frame"),
                    writes=("state",),
                    spec=rows.layers(self.segments),
                    bind=rows.layers_bound(self.segments),
                ),
                *scored(draw, self.scores),
            ]
        across, down = self._blocks
        spec = {"BLOCK_W": rows.block.width, "BLOCK_H": rows.block.height, "BLOCKS_X": across}
        state = {"state": rows.state_format.packing}
        begin = begin_blocks(rows, self.width, self.height, self.segments)
        covered = {
            "CANVAS_WIDTH": across * rows.block.width,
            "CANVAS_HEIGHT": down * rows.block.height,
        }
        blocks = replace(
            draw,
            fragment="draw/ordered/backward_blocks.frag",
            reads=("counts", "splats2d", "colors2d", "order", "d_image", "blocks", "d_splats2d"),
            writes=("blocks", "d_splats2d"),
            attachment=None,
            in_order=False,
            spec={**draw.spec, **covered, **spec},
            slots={**slots, **state, "section": rows.ordering.section},
            macros={},
        )
        if self._rejects:
            blocks = replace(
                blocks,
                reads=(*blocks.reads, "unfinished"),
                depth=UNFINISHED,
                spec={**blocks.spec, "LEAST": rows.least_transmittance},
            )
        unfinished = unfinished_draw(
            "begin backward unfinished",
            "draw/ordered/unfinished.frag",
            "blocks",
            {**spec, "LEAST": rows.least_transmittance},
            state,
        )
        scores = (for_score(begin, name) for name in SCORES if self.scores)
        return [
            begin,
            *scores,
            *([unfinished] if self._rejects else []),
            *scored(blocks, self.scores),
        ]

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        rows, (across, down) = self.rows, self._blocks
        if rows.block.pixels == 1:
            return {
                "state": Image(
                    device,
                    self.width,
                    self.height * self.segments,
                    rows.state_format.vk,
                    rows.state_format.texel,
                    "state",
                )
            }
        blocks = Buffer(
            device,
            self.segments * across * down * rows.block.pixels * rows.state_format.packed,
            "blocks",
        )
        if not self._rejects:
            return {"blocks": blocks}
        return with_unfinished(device, {"blocks": blocks}, across, down * self.segments)

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, the forward draw's target or layers, order -> d_splats2d."""
        across, down = self._blocks
        recorder.run(
            run.get(f"begin backward{score}", run["begin backward"]), threads=(across, down)
        )
        if self._rejects:
            recorder.run(
                run["begin backward unfinished"],
                threads=(3,),
                extent=(across, down * self.segments),
            )
        recorder.run(
            run[f"draw backward{score}"], indirect="draw", extent=(across, down * self.segments)
        )
