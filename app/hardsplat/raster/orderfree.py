"""Gradients from opaque samples: each sees one splat and one behind it, and any order of fragments makes the same.

A sample takes a fragment for opaque with probability alpha; a depth test finds the nearest, I, and a second draw the nearest behind it, K. Then I alone has a
gradient, dL/dc_I = g and dL/dalpha_I = g . (c_I - c_K) / alpha_I, and its mean is that of the blended image: Xu et al., "Stochastic transparency with two-splat
gradients" (CVPR 2026, arXiv 2603.23637). The samples of a pixel are those of multisampling, with one evaluation of a splat for all of them; the image that the
loss sees is blended exactly.

No interlock, no rasterization order, no blended floats: whatever has a graphics pipeline draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hardsplat.gpu.context import Device
from hardsplat.gpu.image import DepthImage, Image
from hardsplat.gpu.passes import ComputePass, DepthTest, DrawPass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.gpu.samples import NUMBER_FORMAT, NumberImage
from hardsplat.raster.blocked import Blocked
from hardsplat.raster.draws import canvas_of, outline, sums
from hardsplat.raster.projection import scored


@dataclass(frozen=True)
class OrderFree(Blocked):
    """Of a canvas of width x height px. rows.samples: of a pixel, a power of two. draws: pairs of draws a step, whose gradients are averaged.
    scores: with those of SCORES.

    A fragment stands for a block of pixels, which share the samples that the device draws: larger blocks are fewer fragments with fewer samples a pixel.
    front_to_back: the second draw finds the nearest splat but that of the first; else the farthest wins that is drawn last, and what hides it is rejected.
    """

    draws: int
    scores: bool = False
    front_to_back = True

    def passes(self) -> list[ComputePass | DrawPass]:
        return [p for draw in range(self.draws) for p in self._passes(draw)]

    def _passes(self, draw: int) -> list[ComputePass | DrawPass]:
        rows, block, (across, down) = self.rows, self.rows.block, self._blocks
        canvas = canvas_of(rows, across * block.width, down * block.height, 1)
        blocks, draws = {"BLOCK_W": block.width, "BLOCK_H": block.height}, {"DRAWS": self.draws}
        numbers = {"NUMBERS": "utexture2DMS" if rows.samples * block.pixels > 1 else "utexture2D"}
        nearest = DrawPass(
            **outline(rows.shape),
            name=f"draw backward nearest {draw}",
            fragment="samples/accept.frag",
            reads=("counts", "frame", "splats2d", "colors2d", "order"),
            writes=("nearest", "sample_depths"),
            attachment="nearest",
            format=NUMBER_FORMAT,
            clear=(0.0, 0.0, 0.0, 0.0),
            samples=rows.samples * block.pixels,
            depth=DepthTest("sample_depths", "less", clear=1.0),
            spec={**canvas, **blocks, **draws, "DRAW": draw, "SAMPLES": rows.samples * block.pixels, "SAMPLED": True, "RANKED": True},
            slots={"taken": "samples/taken_any.glsl"},
        )
        second = replace(nearest, name=f"draw backward next {draw}", attachment="next")
        if self.front_to_back:
            second = replace(second, reads=(*nearest.reads, "nearest"), writes=("next", "sample_depths"), slots={"taken": "samples/taken_others.glsl"}, macros=numbers)
        else:
            depth = DepthTest("sample_depths", "greater", writes=False)
            second = replace(second, reads=(*nearest.reads, "sample_depths"), writes=("next",), depth=depth, spec={**nearest.spec, "BACK_TO_FRONT": True})
        slots, limit = sums(rows, 1)
        gather = ComputePass(
            f"draw backward gather {draw}",
            "samples/gather.comp",
            reads=("frame", "order", "splats2d", "colors2d", "d_image", "nearest", "next", "d_splats2d"),
            writes=("d_splats2d",),
            spec={**limit, **blocks, **draws, "SAMPLES": rows.samples, "LARGEST": rows.format.largest},
            slots=slots,
            macros=numbers,
        )
        return [nearest, second, *scored(gather, self.scores)]

    def allocate(self, device: Device) -> dict[str, Image]:
        out: dict[str, Image] = {}
        try:
            for kind, name in ((NumberImage, "nearest"), (NumberImage, "next"), (DepthImage, "sample_depths")):
                out[name] = kind(device, *self._blocks, name, self.rows.samples * self.rows.block.pixels)
        except BaseException:
            for image in out.values():
                image.destroy()
            raise
        return out

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, order -> d_splats2d."""
        for draw in range(self.draws):
            for name in ("nearest", "next"):
                recorder.run(run[f"draw backward {name} {draw}"], indirect="draw", extent=self._blocks)
            recorder.run(run[f"draw backward gather {draw}{score}"], threads=(self.width, self.height))
