"""How the tiled rasterizer finds gradients: the compute shader, and for those by pixel how a subgroup's are summed (files that fill <reduce>)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TileBackward:
    slot: str | None  # None: by splat, from checkpoints
    spec: tuple[str, ...]  # specialization constants it takes
    pixels: int  # of a lane
    cull: bool  # a subgroup visits only the splats that touch its pixels
    needs: tuple[str, ...]
    note: str
    shader: str = "tiled/backward.comp"


TILE_BACKWARDS = {
    "reduce-scatter": TileBackward("reduce/scatter.glsl", (), 2, True, ("subgroup_tiles",), "by pixel, splats culled by subgroup, sums by recursive halving"),
    "per-splat": TileBackward(None, (), 2, True, ("subgroup_tiles",), "by splat, pixels handed along the lanes from checkpoints (Taming 3DGS)", "tiled/backward_per_splat.comp"),
    "distwar-butterfly": TileBackward(
        "reduce/butterfly.glsl", ("THRESHOLD",), 1, False, ("subgroup_tiles",), "by pixel, whole subgroup where enough lanes contribute (DISTWAR SW-B)"
    ),
    "distwar-serial": TileBackward(
        "reduce/serial.glsl", ("THRESHOLD",), 1, False, ("subgroup_tiles",), "by pixel, one lane adds up the others where enough contribute (DISTWAR SW-S)"
    ),
    "atomic": TileBackward("reduce/atomic.glsl", (), 1, False, ("subgroup_tiles",), "by pixel, nine atomics a pixel and splat: the canonical baseline"),
}
