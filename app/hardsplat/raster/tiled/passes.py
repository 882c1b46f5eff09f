"""Passes of the tiled rasterizer as data: forward, for every image of a projection, and backward in
the ways of TILE_BACKWARDS."""

from __future__ import annotations

from hardsplat import contract
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core.projection import Perspective, Projection, for_images, scored
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
_LISTS = ("camera", "tile_starts", "pair_splats", "tile_splats", "tile_reaches")
# Draws of a frame whose pairs are not listed.
_UNLISTED: dict = {"share": "tiled/share_all.glsl", "walk": "tiled/walk.glsl"}


def pixels_of(lanes: int, least: int) -> int:
    """Pixels of a lane."""
    return min(max(1, least // lanes), MOST_PIXELS)


def bucket_of(row: TileBackward, lanes: int) -> int:
    """Splats of a bucket, which chunks of a subgroup's lanes make up; 0 for a backward pass that
    takes a tile at once."""
    return 0 if row.bucket is None else max(row.bucket, lanes)


def forward_subgroups(lanes: int) -> int:
    """Subgroups that have the pixels of a tile in the forward pass."""
    return TILE * TILE // (lanes * pixels_of(lanes, FORWARD_PIXELS))


def backward_subgroups(lanes: int) -> int:
    """Subgroups that have the pixels of a tile in the backward pass."""
    return TILE * TILE // (lanes * pixels_of(lanes, BACKWARD_PIXELS))


def all_passes(
    around: Projection, rows: TiledRows, width: int, height: int, lanes: int, picture: str = "image"
) -> list[ComputePass]:
    """Those of a projection, and from splats2d and order to the target; with a sink, to
    d_splats2d."""
    (across, down), row = grid(width, height), rows.tile_backward
    bucket = bucket_of(row, lanes) if around.differentiates else 0
    share = {"BUCKET": bucket} if bucket else {}
    stored = ("checkpoints", "reaches", "bucket_tiles") if bucket else ()
    counted = ("counts",) if bucket else ()
    buckets = {**share, "ON_DEMAND": row.on_demand} if bucket else {}
    slots = {"walk": "tiled/walk.glsl", "share": "tiled/share_tile.glsl"}
    slots["checkpoint"] = "tiled/checkpoint_store.glsl" if stored else ""
    count = count_pass(around.in_order)
    draw = ComputePass(
        "draw",
        "tiled/forward.comp",
        (*_LISTS, "tile_order", *counted),
        ("target", *stored, *counted),
        {**walk_of(lanes, FORWARD_PIXELS), **buckets, "PICTURE": PICTURES[picture].number},
        slots,
        full_subgroups=True,
    )
    backward: list[ComputePass] = []
    if around.differentiates and around.sink:
        reads = (*_LISTS, *(stored or ("tile_order",)))
        walk = walk_of(lanes, BACKWARD_PIXELS if row.cull else FORWARD_PIXELS)
        backward = _backward_passes(rows, reads, {**walk, **buckets}, around.sink)
    images = for_images(around, [count, draw]) if picture == "image" else [count, draw]
    listed = [around.image(count, around.listed)] if around.listed else []
    whole = draws_unlisted(around, row)
    tiles = list_passes(around.in_order, across * down, share, lanes, whole)
    unlisted = _unlisted_passes(rows, lanes) if whole else []
    return [*around.passes({}, picture), *images, *listed, *tiles, *backward, *unlisted]


def draws_unlisted(around: Projection, row: TileBackward) -> bool:
    """Whether a frame whose pairs do not fit is drawn without lists, complete and slowly, so that
    nobody has to know before its image is used. Training leaves the farthest pairs out instead."""
    return around.in_order and not row.gathers and around.sink is not None and around.sink.rows


def _unlisted_passes(rows: TiledRows, lanes: int) -> list[ComputePass]:
    draw = ComputePass(
        "draw unlisted",
        "tiled/forward.comp",
        (*_LISTS, "counts"),
        ("target",),
        {**walk_of(lanes, FORWARD_PIXELS), "UNLISTED": True},
        _UNLISTED,
        full_subgroups=True,
    )
    backward = ComputePass(
        "draw backward unlisted",
        "tiled/backward.comp",
        (*_LISTS, "counts", "target", "d_image", "frame", "d_splats2d"),
        ("d_splats2d",),
        {**walk_of(lanes, BACKWARD_PIXELS), "LISTED": False, "UNLISTED": True},
        {**_UNLISTED, "reduce": "tiled/halving.glsl", "atomics": rows.atomics.slot},
        full_subgroups=True,
    )
    return [draw, backward]


def walk_of(lanes: int, least: int) -> dict[str, int]:
    """Specialization constants of tiled/walk.glsl for subgroups with so many pixels."""
    return {
        "LOCAL_SIZE": TILE * TILE // pixels_of(lanes, least),
        "LANES": lanes,
        "PER_LANE": pixels_of(lanes, least),
    }


def _backward_passes(
    rows: TiledRows, reads: tuple[str, ...], walk: dict, sink: Sink
) -> list[ComputePass]:
    row, lanes, by_splat = rows.tile_backward, walk["LANES"], not rows.tile_backward.slots
    if "BUCKET" in walk:
        walk = {**walk, "GROUP_PIXELS": lanes * pixels_of(lanes, FORWARD_PIXELS)}
    slots = {"atomics": rows.atomics.slot}
    if by_splat:
        walk = {name: n for name, n in walk.items() if name != "PER_LANE"}
        walk["LOCAL_SIZE"] = lanes
    else:
        threshold = {"THRESHOLD": rows.threshold} if "THRESHOLD" in row.spec else {}
        walk = {**walk, "LISTED": False, "CULL": row.cull, **threshold}
        slots = {**slots, "walk": "tiled/walk.glsl", **dict(row.slots)}
    records, sums = ("pair_records", "pair_subgroups"), ("d_splats2d",)
    draw = ComputePass(
        "draw backward",
        row.shader,
        (*reads, "target", "d_image", "frame", *(records[1:] if row.gathers else sums)),
        records if row.gathers else sums,
        {**walk, "BY_PAIR": True} if row.gathers else walk,
        slots,
        full_subgroups=True,
    )
    if not row.gathers:
        return scored(draw, sink.scores)
    lists = ("camera", "counts", "tile_starts", "pair_splats", "tile_splats", "tile_reaches")
    spec = {"LANES": lanes, "SUBGROUPS": backward_subgroups(lanes), "ADDS": sink.depths}
    gather = ComputePass(
        "draw backward gather",
        "tiled/gather.comp",
        (*lists, *records, *sums),
        sums,
        spec,
        full_subgroups=True,
    )
    return [*scored(draw, sink.scores), gather]


def sources(device: Device, options: TiledOptions) -> set[ShaderSource]:
    """The shaders of a rasterizer with these options."""
    rows, lanes = TiledRows.resolve(device, options), device.subgroup_size
    around = Perspective(1, STORE, in_order=not is_local(rows.tile_backward, lanes), lanes=lanes)
    return {source for p in all_passes(around, rows, 1, 1, lanes) for source in p.sources()}
