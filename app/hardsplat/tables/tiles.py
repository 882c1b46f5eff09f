"""How the tiled rasterizer finds gradients: the compute shader, and for those by pixel how a
subgroup's are summed (files that fill <reduce>)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TileBackward:
    shader: str
    slots: tuple[tuple[str, str], ...]
    spec: tuple[
        str, ...
    ]  # specialization constants it takes, of those that depend on more than this row
    cull: bool  # by pixel: a subgroup visits only the splats that touch its pixels
    bucket: (
        int | None
        # splats between the checkpoints of the forward pass; 0: as many as a subgroup has lanes;
        # None: there are none
    )
    needs: tuple[str, ...]
    note: str
    gathers: bool = False  # pairs' records, summed splat by splat afterwards, instead of atomics


def _by_pixel(
    reduce: str, share: str, spec: tuple[str, ...], cull: bool, bucket: int | None, note: str
) -> TileBackward:
    return TileBackward(
        "tiled/backward.comp",
        (("reduce", reduce), ("share", share)),
        spec,
        cull,
        bucket,
        ("subgroup_tiles",),
        note,
    )


TILE_BACKWARDS = {
    "reduce-scatter": _by_pixel(
        "tiled/halving.glsl",
        "tiled/share_bucket.glsl",
        (),
        True,
        64,
        "by pixel, 64 splats a workgroup, culled by subgroup, sums by recursive halving",
    ),
    "per-splat": TileBackward(
        "tiled/backward_per_splat.comp",
        (),
        (),
        True,
        0,
        ("subgroup_tiles",),
        "by splat, pixels handed along the lanes from checkpoints (Taming 3DGS)",
    ),
    "distwar-butterfly": _by_pixel(
        "reduce/butterfly.glsl",
        "tiled/share_tile.glsl",
        ("THRESHOLD",),
        False,
        None,
        "by pixel, whole subgroup where enough lanes contribute (DISTWAR SW-B)",
    ),
    "distwar-serial": _by_pixel(
        "reduce/serial.glsl",
        "tiled/share_tile.glsl",
        ("THRESHOLD",),
        False,
        None,
        "by pixel, one lane adds up the others where enough contribute (DISTWAR SW-S)",
    ),
    "atomic": _by_pixel(
        "reduce/atomic.glsl",
        "tiled/share_tile.glsl",
        (),
        False,
        None,
        "by pixel, nine atomics a pixel and splat: the canonical baseline",
    ),
    "gather": TileBackward(
        "tiled/backward.comp",
        (
            ("atomics", "tiled/records.glsl"),
            ("reduce", "tiled/halving.glsl"),
            ("share", "tiled/share_bucket.glsl"),
        ),
        (),
        True,
        128,
        ("subgroup_tiles", "gathering_buffers"),
        "as reduce-scatter, but a splat's sums are stored by pair and added in one "
        "order: bit-identical from run to run, for up to 148 bytes a pair",
        gathers=True,
    ),
}
