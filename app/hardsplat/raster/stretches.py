"""The forward draw in stretches of depth segments, nearest first: each leaves out the pixels that those before it have finished, by a depth test.

Blending goes back to front, so the draw of a segment knows nothing of what will hide it. Between stretches the transmittance of what is drawn already is known: where it is
below T_MIN, nothing behind is seen, and the depth test rejects its fragments before they run. Stretches grow with depth (a sixteenth, a quarter, a half of the segments, and
all), for what is near hides most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hardsplat.gpu.graphics import DepthTest
from hardsplat.gpu.passes import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.variants.shapes import LIST

if TYPE_CHECKING:
    from hardsplat.raster.rows import Rows

MOST = 4  # commands in `indirect`


def firsts(segments: int) -> list[int]:
    """The first segment of every stretch."""
    return sorted({0, segments // 16, segments // 4, segments // 2})


def stretched(rows: Rows, segments: int) -> bool:
    """Whether the forward draw goes by stretches: it needs segments, and a command that can begin anywhere in the list of splats (where a shader makes the outlines it cannot)."""
    return segments > 1 and not rows.blending.ordered and rows.shape.draw == LIST


def stretch_passes(draw: DrawPass, segments: int) -> list[ComputePass | DrawPass]:
    """draw: that of all segments at once, of which the first stretch is drawn too."""
    begins = firsts(segments)
    spec = {"SEGMENTS": segments}
    ends = {f"END_{k}": begins[k + 1] if k + 1 < len(begins) else segments for k in range(MOST)}
    out: list[ComputePass | DrawPass] = [ComputePass("draw stretches", "draw/stretches.comp", ("counts",), ("indirect",), {**spec, **ends, "DRAW_VERTICES": draw.spec["VERTICES"]})]
    for k, begin in enumerate(begins[1:], 1):
        front = {**spec, "BEGIN": begins[k - 1], "END": begin}
        size = {name: draw.spec[name] for name in ("CANVAS_WIDTH", "CANVAS_HEIGHT")}
        out.append(ComputePass(f"draw front {k}", "draw/front.comp", ("layers", "fronts"), ("fronts",), front))
        out.append(
            DrawPass(
                name=f"draw open {k}",
                vertex="draw/rows.vert",
                fragment="draw/open.frag",
                reads=("fronts", *(("open_pixels",) if k > 1 else ())),
                writes=("open_pixels",),
                depth=DepthTest("open_pixels", "less or equal", clear=1.0 if k == 1 else None),
                spec={**spec, **size, "BEGIN": begin, "END": ends[f"END_{k}"]},
            )
        )
        seen = DepthTest("open_pixels", "less", writes=False)
        out.append(replace(draw, name=f"draw stretch {k}", clear=None, reads=(*draw.reads, "open_pixels"), depth=seen))
    return out


def record_stretches(recorder: Recorder, run: Mapping[str, Pipeline], size: tuple[int, int], segments: int) -> None:
    """order, counts -> layers. size: of a segment's canvas, px."""
    tall = (size[0], size[1] * segments)
    recorder.run(run["draw stretches"], threads=(1,))
    recorder.run(run["draw"], indirect="stretch_0", extent=tall)
    for k in range(1, len(firsts(segments))):
        recorder.run(run[f"draw front {k}"], threads=size)
        recorder.run(run[f"draw open {k}"], threads=(6,), extent=tall)
        recorder.run(run[f"draw stretch {k}"], indirect=f"stretch_{k}", extent=tall)
