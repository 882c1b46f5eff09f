"""Passes of the tiled rasterizer as data: forward, for every image of a projection, and backward in
the ways of TILE_BACKWARDS."""

from __future__ import annotations

from hardsplat import contract
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core import stochastic
from hardsplat.raster.core.projection import Perspective, for_images, scored
from hardsplat.raster.core.protocols import Projection
from hardsplat.raster.core.sinks import STORE, Sink
from hardsplat.raster.tiled.lists import count_pass, grid, is_local, list_passes
from hardsplat.raster.tiled.rows import TiledOptions, TiledRows
from hardsplat.tables.pictures import PICTURES
from hardsplat.tables.tiles import TileBackward

TILE = contract.CONSTANTS["TILE"]
# Pixels of a subgroup, at least; in Morton order they are a rectangle of 8x4 or 16x8, and splats
# are culled against it. Backward, where a visit ends in nine sums over the subgroup, fewer and
# larger ones pay.
FORWARD_PIXELS, BACKWARD_PIXELS = 32, 128
MOST_PIXELS = 8  # of a lane


def pixels_of(lanes: int, least: int) -> int:
    """Pixels of a lane."""
    return min(max(1, least // lanes), MOST_PIXELS)


def bucket_of(row: TileBackward, lanes: int) -> int:
    """Splats of a bucket; 0 for a backward pass that takes a tile at once."""
    return 0 if row.bucket is None else row.bucket or lanes


def forward_subgroups(lanes: int) -> int:
    """Subgroups that have the pixels of a tile in the forward pass."""
    return TILE * TILE // (lanes * pixels_of(lanes, FORWARD_PIXELS))


def backward_subgroups(lanes: int) -> int:
    """Subgroups that have the pixels of a tile in the backward pass."""
    return TILE * TILE // (lanes * pixels_of(lanes, BACKWARD_PIXELS))


def threads_of(tiles: int, local_size: int) -> int:
    """Threads of a workgroup for every tile, counted in the size that the shader has by default."""
    return tiles * local_size


def passes(
    rows: TiledRows,
    width: int,
    height: int,
    sh_planes: int,
    sink: Sink | None,
    lanes: int,
    threshold: int = 8,
    antialiased: bool = False,
    picture: str = "image",
) -> list[ComputePass]:
    """Every pass of a frame of 3D splats, forward and, unless the sink is None, backward, on a
    canvas of width x height px, for subgroups of `lanes`."""
    return all_passes(
        Perspective(
            sh_planes,
            sink,
            antialiased,
            in_order=not is_local(rows.tile_backward, lanes),
            lanes=lanes,
        ),
        rows,
        width,
        height,
        lanes,
        threshold,
        picture,
    )


def all_passes(
    around: Projection,
    rows: TiledRows,
    width: int,
    height: int,
    lanes: int,
    threshold: int,
    picture: str = "image",
) -> list[ComputePass]:
    """Those of a projection, and from splats2d and order to the target; with a sink, to
    d_splats2d."""
    across, down = grid(width, height)
    walk = walk_of(lanes, FORWARD_PIXELS)
    back = walk_of(lanes, BACKWARD_PIXELS if rows.tile_backward.cull else FORWARD_PIXELS)
    bucket = bucket_of(rows.tile_backward, lanes) if around.differentiates else 0
    share = {"BUCKET": bucket} if bucket else {}
    lists = ("camera", "tile_starts", "pair_splats", "tile_splats", "tile_reaches")
    stored = ("checkpoints", "reaches", "bucket_tiles") if bucket else ()
    slots = {"walk": "tiled/walk.glsl", "share": "tiled/share_tile.glsl"}
    slots["checkpoint"] = "tiled/checkpoint_store.glsl" if stored else ""
    count = count_pass(around.in_order)
    draw = ComputePass(
        "draw",
        "tiled/forward.comp",
        reads=(*lists, "tile_order"),
        writes=("target", *stored),
        spec={**walk, **share, "PICTURE": PICTURES[picture].number},
        slots=slots,
        full_subgroups=True,
    )
    reads = (*lists, *(stored or ("tile_order",)))
    backward = (
        _backward_passes(rows, reads, {**back, **share}, threshold, around.sink)
        if around.differentiates and around.sink
        else []
    )
    images = for_images(around, [count, draw]) if picture == "image" else [count, draw]
    listed = [around.image(count, around.listed)] if around.listed else []
    return [
        *around.passes({}, picture),
        *images,
        *listed,
        *list_passes(around.in_order, across * down, share, lanes),
        *backward,
    ]


def walk_of(lanes: int, least: int) -> dict[str, int]:
    """Specialization constants of tiled/walk.glsl for subgroups with so many pixels."""
    return {
        "LOCAL_SIZE": TILE * TILE // pixels_of(lanes, least),
        "LANES": lanes,
        "PER_LANE": pixels_of(lanes, least),
    }


def _by_splat(row: TileBackward) -> bool:
    return not row.slots


def _backward_passes(
    rows: TiledRows, reads: tuple[str, ...], walk: dict, threshold: int, sink: Sink
) -> list[ComputePass]:
    row, scores = rows.tile_backward, sink.scores
    if "BUCKET" in walk:
        walk = {**walk, "GROUP_PIXELS": walk["LANES"] * pixels_of(walk["LANES"], FORWARD_PIXELS)}
    if _by_splat(row):
        walk = {name: n for name, n in walk.items() if name != "PER_LANE"} | {
            "LOCAL_SIZE": walk["LANES"]
        }
    else:
        walk = {
            **walk,
            "LISTED": False,
            "CULL": row.cull,
            **({"THRESHOLD": threshold} if "THRESHOLD" in row.spec else {}),
        }
    slots = {
        "atomics": rows.atomics.slot,
        **({} if _by_splat(row) else {"walk": "tiled/walk.glsl"}),
        **dict(row.slots),
    }
    reads = (*reads, "target", "d_image", "frame")
    if not row.gathers:
        return scored(
            ComputePass(
                "draw backward",
                row.shader,
                (*reads, "d_splats2d"),
                ("d_splats2d",),
                walk,
                slots,
                full_subgroups=True,
            ),
            scores,
        )
    records, lanes = ("pair_records", "pair_subgroups"), walk["LANES"]
    gathered, spec = (
        ("camera", "counts", "tile_starts", "pair_splats", "tile_splats", "tile_reaches", *records),
        {"LANES": lanes, "SUBGROUPS": backward_subgroups(lanes)},
    )
    return [
        *scored(
            ComputePass(
                "draw backward",
                row.shader,
                (*reads, "pair_subgroups"),
                records,
                {**walk, "BY_PAIR": True},
                slots,
                full_subgroups=True,
            ),
            scores,
        ),
        ComputePass(
            "draw backward gather",
            "tiled/gather.comp",
            (*gathered, "d_splats2d"),
            ("d_splats2d",),
            {**spec, "ADDS": sink.depths},
            full_subgroups=True,
        ),
    ]


def plan(
    device: Device,
    sh_planes: int,
    width: int,
    height: int,
    options: TiledOptions,
    sink: Sink | None,
    projection: Projection | None = None,
) -> tuple[Projection, TiledRows, int, int, int, int]:
    """What `all_passes` needs to know of a rasterizer. Raises UserError for options that the device
    cannot run."""
    rows = TiledRows.resolve(device, options)
    threshold = max(1, options.tile_threshold * device.subgroup_size // 32)
    estimator, in_order = options.stochastic, not is_local(rows.tile_backward, device.subgroup_size)
    projection = projection or stochastic.projection(
        device, sh_planes, sink, options.antialiased, estimator, options.lens, in_order
    )
    return projection, rows, width, height, device.subgroup_size, threshold


def first(device: Device, options: TiledOptions) -> TiledOptions:
    """These options, of which none is timed. Raises UserError for what the device cannot run."""
    TiledRows.resolve(device, options)
    return options


def sources(device: Device, options: TiledOptions) -> set[ShaderSource]:
    """The shaders of a rasterizer with these options."""
    return {
        source
        for p in passes(TiledRows.resolve(device, options), 1, 1, 1, STORE, device.subgroup_size)
        for source in p.sources()
    }
