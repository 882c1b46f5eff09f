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
from hardsplat.gpu.graphics import DepthTest
from hardsplat.gpu.memory import DepthImage, Image
from hardsplat.gpu.passes import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.gpu.samples import NUMBER_FORMAT, NumberImage
from hardsplat.raster.draws import canvas_of, outline, sums
from hardsplat.raster.projection import scored
from hardsplat.raster.rows import Rows


@dataclass(frozen=True)
class OrderFree:
    """Of a canvas of width x height px. rows.samples: of a pixel, a power of two. draws: pairs of draws a step, whose gradients are averaged. scores: with those of SCORES."""

    rows: Rows
    width: int
    height: int
    draws: int
    scores: bool = False

    def passes(self) -> list[ComputePass | DrawPass]:
        return [p for draw in range(self.draws) for p in self._passes(draw)]

    def _passes(self, draw: int) -> list[ComputePass | DrawPass]:
        rows, canvas = self.rows, canvas_of(self.rows, self.width, self.height, 1)
        sampled = {"SAMPLES": rows.samples, "DRAWS": self.draws, "DRAW": draw}
        nearest = DrawPass(
            **outline(rows.shape),
            name=f"draw backward nearest {draw}",
            fragment="samples/accept.frag",
            reads=("counts", "frame", "splats2d", "colors2d", "order"),
            writes=("nearest", "sample_depths"),
            attachment="nearest",
            format=NUMBER_FORMAT,
            clear=(0.0, 0.0, 0.0, 0.0),
            samples=rows.samples,
            depth=DepthTest("sample_depths", "less", clear=1.0),
            spec={**canvas, **sampled, "SAMPLED": True},
        )
        # Back to front, so that of the fragments that are farther than the nearest the last one stays.
        behind = replace(
            nearest,
            name=f"draw backward next {draw}",
            reads=(*nearest.reads, "sample_depths"),
            writes=("next",),
            attachment="next",
            depth=DepthTest("sample_depths", "greater", writes=False),
            spec={**nearest.spec, "BACK_TO_FRONT": True},
        )
        slots, limit = sums(rows, 1)
        gather = ComputePass(
            f"draw backward gather {draw}",
            "samples/gather.comp",
            reads=("frame", "order", "splats2d", "colors2d", "d_image", "nearest", "next", "d_splats2d"),
            writes=("d_splats2d",),
            spec={**limit, "SAMPLES": rows.samples, "DRAWS": self.draws, "LARGEST": rows.format.largest},
            slots=slots,
            macros={"NUMBERS": "utexture2DMS" if rows.samples > 1 else "utexture2D"},
        )
        return [nearest, behind, *scored(gather, self.scores)]

    def allocate(self, device: Device) -> dict[str, Image]:

        out: dict[str, Image] = {}
        try:
            for kind, name in ((NumberImage, "nearest"), (NumberImage, "next"), (DepthImage, "sample_depths")):
                out[name] = kind(device, self.width, self.height, name, self.rows.samples)
        except BaseException:
            for image in out.values():
                image.destroy()
            raise
        return out

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, order -> d_splats2d."""
        for draw in range(self.draws):
            for name in ("nearest", "next"):
                recorder.run(run[f"draw backward {name} {draw}"], indirect="draw", extent=(self.width, self.height))
            recorder.run(run[f"draw backward gather {draw}{score}"], threads=(self.width, self.height))
