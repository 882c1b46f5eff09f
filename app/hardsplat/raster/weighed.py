"""Gradients without an order of fragments, in which every fragment has its part: samples weigh it.

A sample of a pixel takes a splat for opaque with probability alpha and sees the nearest such splat, I. Whether I lies in front of splat i estimates the transmittance
T_i, and what samples see behind i the colour there. The rest of the gradient is known: the mean over each fragment's own acceptance is taken exactly (Rao & Blackwell),
where estimates by pairs (orderfree.py) leave a fragment out unless a sample accepts it. With depth segments, what is in front of a segment and what is behind it come
exactly from the forward draw, and samples look no farther than one segment. Sampling: Enderton et al., "Stochastic Transparency" (I3D 2010).

No interlock, no rasterization order and no multisampling: a device that stores from fragment shaders draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardsplat.gpu.context import Device
from hardsplat.gpu.image import DepthImage, Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.blocked import Segmented
from hardsplat.raster.draws import UNFINISHED, canvas_of, outline, sums, unfinished_draw
from hardsplat.raster.projection import for_score, scored
from hardsplat.raster.sinks import SCORES


@dataclass(frozen=True)
class Weighed(Segmented):
    """Of a canvas of width x height px. rows.samples: of a pixel. draws: how often the samples are drawn in a step; gradients are averaged."""

    draws: int = 1

    @property
    def _vectors(self) -> int:
        """Of a pixel and depth segment."""
        return -(-self.rows.samples * self.rows.state_format.packed // 8)

    def passes(self) -> list[ComputePass | DrawPass]:
        return [p for draw in range(self.draws) for p in self._passes(draw)]

    def _passes(self, draw: int) -> list[ComputePass | DrawPass]:
        rows, block, (across, down) = self.rows, self.rows.block, self._blocks
        shape = {"BLOCK_W": block.width, "BLOCK_H": block.height, "BLOCKS_X": across}
        blocks = {**shape, "BLOCKS_Y": down, "SAMPLES": rows.samples}
        seen = {"seen": rows.state_format.seen}
        layers = rows.layers_bound(self.segments)
        segments, least, weight = rows.layers(self.segments), {"LEAST": rows.least_transmittance}, {"LEAST_WEIGHT": rows.least_weight}
        begin = ComputePass(
            f"draw backward begin {draw}", "samples/begin.comp", ("layers", "frame", "d_image"), ("d_image", "sample_ranks"), {**blocks, **segments, **least}, bind=layers
        )
        unfinished = unfinished_draw(f"draw backward unfinished {draw}", "samples/unfinished.frag", "sample_ranks", {**blocks, **weight})
        canvas = canvas_of(rows, across * block.width, down * block.height, self.segments)
        nearest = DrawPass(
            **outline(rows.shape),
            name=f"draw backward nearest {draw}",
            fragment="samples/nearest.frag",
            reads=("counts", "frame", "splats2d", "colors2d", "order", "sample_ranks", "sample_rank_vectors", "unfinished"),
            writes=("sample_ranks",),
            bind={"sample_rank_vectors": "sample_ranks"},
            depth=UNFINISHED,
            spec={**canvas, **shape, "SAMPLES": rows.samples * block.pixels, "DRAWS": self.draws, "DRAW": draw, "RANKED": True, **weight},
        )
        look = ComputePass(
            f"draw backward look {draw}",
            "samples/look.comp",
            ("layers", "frame", "d_image", "order", "colors2d", "sample_ranks"),
            ("samples",),
            {**blocks, **segments, "LARGEST": rows.format.largest},
            seen,
            bind=layers,
        )
        slots, limit = sums(rows, self.threshold)
        backward = DrawPass(
            **outline(rows.shape),
            name=f"draw backward {draw}",
            fragment="samples/backward.frag",
            reads=("counts", "splats2d", "colors2d", "order", "d_image", "samples", "d_splats2d", "unfinished"),
            writes=("d_splats2d",),
            depth=UNFINISHED,
            spec={**canvas, **limit, **blocks, **least, "DRAWS": self.draws, "RANKED": True, **weight},
            slots={**slots, **seen},
        )
        scores = (for_score(p, name) for p in (begin, look) for name in SCORES if self.scores)
        return [begin, unfinished, nearest, look, *scores, *scored(backward, self.scores)]

    def allocate(self, device: Device) -> dict[str, Buffer | Image]:
        across, down = self._blocks
        out: dict[str, Buffer | Image] = {}
        try:
            n = self.segments * across * down
            out["sample_ranks"] = Buffer(device, 4 * n * self.rows.block.pixels * self.rows.samples, "sample_ranks")
            out["samples"] = Buffer(device, 16 * n * self.rows.block.pixels * self._vectors, "samples")
            out["unfinished"] = DepthImage(device, across, down * self.segments, "unfinished")
        except BaseException:
            for resource in out.values():
                resource.destroy()
            raise
        return out

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline], score: str = "") -> None:
        """d_image, the forward draw's target or layers, order -> d_splats2d."""
        (across, down), block = self._blocks, self.rows.block
        tall, pixels = (across, down * self.segments), (across * block.width, down * block.height)
        for draw in range(self.draws):
            recorder.run(run[f"draw backward begin {draw}{score}"], threads=pixels)
            recorder.run(run[f"draw backward unfinished {draw}"], threads=(3,), extent=tall)
            recorder.run(run[f"draw backward nearest {draw}"], indirect="draw", extent=tall)
            recorder.run(run[f"draw backward look {draw}{score}"], threads=pixels)
            recorder.run(run[f"draw backward {draw}{score}"], indirect="draw", extent=tall)
