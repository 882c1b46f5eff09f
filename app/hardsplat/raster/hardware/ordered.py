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
from hardsplat.raster.core.projection import scored
from hardsplat.raster.hardware.draws import (
    UNFINISHED,
    Backward,
    macros,
    outline,
    sums,
    unfinished_draw,
    with_unfinished,
)


@dataclass(frozen=True)
class Ordered(Backward):
    """Draws of ordered fragments, on a canvas of width x height px."""

    @property
    def _rejects(self) -> bool:
        """Whether segments leave blocks out that those in front of them have finished."""
        return self.segments > 1 and self.rows.block.pixels > 1

    def passes(self) -> list[ComputePass | DrawPass]:
        rows, (slots, limit) = self.rows, sums(self.rows)
        splats = ("counts", "splats2d", "colors2d", "order", "d_image")
        draw = DrawPass(
            **outline(rows.shape),
            name="draw backward",
            fragment="draw/ordered/backward.frag",
            reads=(*splats, "state", "d_splats2d"),
            writes=("state", "d_splats2d"),
            attachment="state" if rows.ordering.attachment else None,
            format=rows.state_format.vk,
            in_order=rows.ordering.attachment,
            spec={**self.canvas(), **limit},
            slots={**slots, "order": rows.ordering.slot},
            macros=macros(rows, rows.state_format),
        )
        if rows.block.pixels == 1:
            begin = ComputePass(
                "begin backward",
                "draw/ordered/begin_backward.comp",
                ("layers", "frame"),
                ("state",),
                rows.layers(self.segments),
                bind=rows.layers_bound(self.segments),
            )
            return [begin, *scored(draw, self.scores)]
        state, begins = {"state": rows.state_format.packing}, self._begin_passes(first=0)
        blocks = replace(
            draw,
            fragment="draw/ordered/backward_blocks.frag",
            reads=(*splats, "blocks", "d_splats2d"),
            writes=("blocks", "d_splats2d"),
            attachment=None,
            in_order=False,
            spec={**draw.spec, **self.canvas(whole=True), **self.spec, "OF_T": self.of_T},
            slots={**slots, **state, "section": rows.ordering.section},
            macros={},
        )
        if not self._rejects:
            return [*begins, *scored(blocks, self.scores)]
        least = {"LEAST": rows.least_transmittance}
        name, fragment = "begin backward unfinished", "draw/ordered/unfinished.frag"
        unfinished = unfinished_draw(name, fragment, "blocks", {**self.spec, **least}, state)
        reads, spec = (*blocks.reads, "unfinished"), {**blocks.spec, **least}
        blocks = replace(blocks, reads=reads, depth=UNFINISHED, spec=spec)
        return [*begins, unfinished, *scored(blocks, self.scores)]

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        format, tall = self.rows.state_format, self.height * self.segments
        if self.rows.block.pixels == 1:
            image = Image(device, self.width, tall, format.vk, format.texel, "state")
            return {"state": image}
        (across, down), pixels = self.blocks, self.segments * self.rows.block.pixels
        blocks = Buffer(device, across * down * pixels * format.packed, "blocks")
        if not self._rejects:
            return {"blocks": blocks}
        return with_unfinished(device, {"blocks": blocks}, across, down * self.segments)

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, the forward draw's target or layers, order -> d_splats2d."""
        across, down = self.blocks
        tall = down * self.segments
        self._record_begin(recorder, run, score)
        if self._rejects:
            unfinished = run["begin backward unfinished"]
            recorder.run(unfinished, threads=(3,), extent=(across, tall))
        recorder.run(run[f"draw backward{score}"], indirect="draw", extent=(across, tall))
