"""Splats in tiles of 16x16 pixels, in compute shaders alone: the canonical way (Kerbl et al. 2023),
with what was published since.

Every splat lists exactly the tiles that its ellipse alpha >= 1/255 touches (Speedy-Splat, Hanson et
al. 2025), and tiles sort what they list by depth, see lists.py. Everything stays on the GPU.
The pairs' buffers have a capacity; a frame that has more is drawn without some of them, or
`draws_unlisted`, and counts them in `counts.pairs_wanted`, see `reserve_pairs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import MARKS, Need
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.resources import allocate_all, allocate_overlaid
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core.choose import Search
from hardsplat.raster.core.projection import Perspective, Projection, for_images, scored
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.resolve import thresholds
from hardsplat.raster.core.sinks import STORE, Sink
from hardsplat.raster.tiled.lists import (
    COUNTED,
    count_pass,
    grid,
    is_local,
    list_passes,
    most_pairs,
    pair_bytes,
    record_counts,
    record_lists,
    record_packed,
    splat_bytes,
)
from hardsplat.raster.tiled.rows import THRESHOLD, TiledOptions, TiledRows
from hardsplat.tables.gradients import TileBackward
from hardsplat.tables.pictures import PICTURES

TILE = contract.CONSTANTS["TILE"]
# Pixels of a subgroup, at least; in Morton order they are a rectangle of 8x4 or 16x8, and splats
# are culled against it. Backward, where a visit ends in nine sums over the subgroup, fewer and
# larger ones pay.
FORWARD_PIXELS, BACKWARD_PIXELS = 32, 128
MOST_PIXELS = 8  # of a lane
# Scratch of a training step in one memory: the first and the last of these parts of the step in
# which it has something to keep. DRAW: forward, scores, backward. BETWEEN: two steps.
PROJECT, SORT, COUNT, LIST, DRAW, GRADIENTS, BETWEEN = range(7)
LIVES = {
    **dict.fromkeys(("splats2d", "colors2d"), (PROJECT, COUNT)),
    "keys": (PROJECT, SORT),
    **dict.fromkeys(("keys_alt", "order_alt", "digit_counts"), (SORT, SORT)),
    "order": (SORT, COUNT),
    "tile_spans": (COUNT, LIST),
    **dict.fromkeys(("pair_tiles", "pair_tiles_alt", "pair_splats_alt"), (LIST, LIST)),
    **dict.fromkeys(("pair_digits", "pair_keys"), (LIST, LIST)),
    "pair_splats": (LIST, DRAW),
    "checkpoints": (DRAW, DRAW),
    **dict.fromkeys(("d_colors", "directions"), (GRADIENTS, GRADIENTS)),
    **dict.fromkeys(MARKS, (BETWEEN, BETWEEN)),
}
_LOCAL = {"keys": (PROJECT, LIST)}  # of the above, where tiles sort their own splats
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


def subgroups(lanes: int, least: int) -> int:
    """How many have the pixels of a tile. least: FORWARD_PIXELS or BACKWARD_PIXELS."""
    return TILE * TILE // (lanes * pixels_of(lanes, least))


def all_passes(
    projection: Projection,
    rows: TiledRows,
    width: int,
    height: int,
    lanes: int,
    picture: str = "image",
) -> list[ComputePass]:
    """Passes of a projection, and from splats2d and order to the target; with a sink, to
    d_splats2d."""
    (across, down), row = grid(width, height), rows.tile_backward
    bucket = bucket_of(row, lanes) if projection.differentiates else 0
    share = {"BUCKET": bucket} if bucket else {}
    stored = ("checkpoints", "reaches", "bucket_tiles") if bucket else ()
    counted = ("counts",) if bucket else ()
    buckets = {**share, "ON_DEMAND": row.on_demand} if bucket else {}
    slots = {"walk": "tiled/walk.glsl", "share": "tiled/share_tile.glsl"}
    slots["checkpoint"] = "tiled/checkpoint_store.glsl" if stored else ""
    count = count_pass(projection.in_order)
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
    if projection.differentiates and projection.sink:
        reads = (*_LISTS, *(stored or ("tile_order",)))
        walk = walk_of(lanes, BACKWARD_PIXELS if row.cull else FORWARD_PIXELS)
        backward = _backward_passes(rows, reads, {**walk, **buckets}, projection.sink)
    images = for_images(projection, [count, draw]) if picture == "image" else [count, draw]
    listed = [projection.image(count, projection.listed)] if projection.listed else []
    whole = draws_unlisted(projection, row)
    tiles = list_passes(projection.in_order, across * down, share, lanes, whole)
    unlisted = _unlisted_passes(rows, lanes) if whole else []
    return [*projection.passes({}, picture), *images, *listed, *tiles, *backward, *unlisted]


def draws_unlisted(projection: Projection, row: TileBackward) -> bool:
    """Whether a frame whose pairs do not fit is drawn without lists, complete and slowly, so that
    nobody has to know before its image is used. Training leaves the farthest pairs out instead."""
    return (
        projection.in_order
        and not row.gathers
        and projection.sink is not None
        and projection.sink.rows
    )


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
        threshold = {"THRESHOLD": rows.threshold} if row.threshold else {}
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
    in_tile = subgroups(lanes, BACKWARD_PIXELS)
    spec = {"LANES": lanes, "SUBGROUPS": in_tile, "ADDS": sink.depths}
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
    rows, lanes = TiledRows.first(device, options), device.subgroup_size
    projection = Perspective(
        1, STORE, in_order=not is_local(rows.tile_backward, lanes), lanes=lanes
    )
    return {source for p in all_passes(projection, rows, 1, 1, lanes) for source in p.sources()}


# Pairs that fit at first: splats touch 2 to 3 tiles in trained scenes, many more in small ones.
PAIRS_PER_SPLAT, FEWEST_PAIRS = 2, 1 << 20
# What a splat takes for its pairs: lists in order, and a checkpoint of 4 KiB for 64 pairs, of which
# there may be fewer.
_PAIR = Need(4.0 * PAIRS_PER_SPLAT, 4.0 * PAIRS_PER_SPLAT)
PAIRS = {
    **dict.fromkeys(("pair_splats", "pair_splats_alt", "pair_tiles", "pair_tiles_alt"), _PAIR),
    "pair_digits": Need(2.0 * PAIRS_PER_SPLAT, 2.0 * PAIRS_PER_SPLAT),
    "checkpoints": Need(64.0 * PAIRS_PER_SPLAT, 0.0),
}
SHARE = 0.5  # of the memory that the driver has left, which checkpoints take at most
_CHECKPOINT_BYTES = TILE * TILE * contract.itemsize("checkpoints")  # of a bucket


def rows_of(device: Device, options: TiledOptions, backward: bool = True) -> TiledRows:
    """The rows of these options, with the fastest threshold where they name none. Raises UserError
    for what the device cannot run. backward: there are gradients too."""
    rows = TiledRows.first(device, options)
    if not backward or options.tile_threshold or "tile_threshold" not in rows.names:
        return rows
    choices: dict[str, list[str | int]] = {"tile_threshold": [*thresholds(device, THRESHOLD)]}

    def first(options: TiledOptions) -> Mapping[str, str | int]:
        return TiledRows.first(device, options).names

    made_of = partial(sources, device)
    search = Search("tiled", options, first, choices, TiledRasterizer, made_of)
    return TiledRows.first(device, search.choose(device))


def first_runnable(device: Device, options: TiledOptions) -> TiledOptions:
    """These options with a threshold instead of those that would be timed. Raises UserError for
    what the device cannot run."""
    names: dict[str, Any] = dict(TiledRows.first(device, options).names)
    return replace(options, tile_threshold=names.get("tile_threshold", options.tile_threshold))


class TiledRasterizer(Rasterizer):
    """Splats listed by tile of 16x16 pixels, in compute shaders alone."""

    options, needs, own_buffers, overlaid = TiledOptions, PAIRS, COUNTED, LIVES
    resolve = staticmethod(TiledRows.first)
    rows_of = staticmethod(rows_of)
    first_runnable = staticmethod(first_runnable)
    sources = staticmethod(sources)
    all_passes = staticmethod(all_passes)
    rows: TiledRows

    @classmethod
    def _in_order(cls, device: Device, rows: TiledRows) -> bool:
        return not is_local(rows.tile_backward, device.subgroup_size)

    def _allocate(self, nbytes: dict[str, int]) -> None:
        device, row = self.device, self.rows.tile_backward
        differentiates = self.projection.differentiates
        self.tiles = int(np.prod(grid(self.width, self.height)))
        self.bucket = bucket_of(row, device.subgroup_size) if differentiates else 0
        self.gathers = differentiates and row.gathers
        self._find_unlisted()
        backward = subgroups(device.subgroup_size, BACKWARD_PIXELS)
        numbers = backward * contract.CONSTANTS["GRADIENTS"]
        self.record_bytes = numbers * contract.itemsize("pair_records")  # of a pair
        first = max(PAIRS_PER_SPLAT * self._capacity, FEWEST_PAIRS)
        self.pair_capacity = self.least_pairs = min(self._most_pairs(), first)
        most = self._most_checkpoints(self.pair_capacity)
        self.checkpoint_capacity = -(-most // 2) if row.on_demand else most
        nbytes |= splat_bytes(self.projection.in_order, self._capacity, self.width, self.height)
        if self.bucket:
            forward = self.tiles * subgroups(device.subgroup_size, FORWARD_PIXELS)
            nbytes["reaches"] = forward * contract.itemsize("reaches")
        self._overlaid: dict[str, int] = {}
        sink = self.projection.sink
        if self._trains and sink:
            self.lives = LIVES if self.projection.in_order else {**LIVES, **_LOCAL}
            if not sink.packed:  # else those of the whole model are marked
                nbytes |= contract.nbytes(dict.fromkeys(MARKS, self._capacity))
            self._overlaid = {name: nbytes.pop(name) for name in LIVES if name in nbytes}
        super()._allocate(nbytes)
        self._allocate_lists()
        self.least_checkpoints = self.checkpoint_capacity  # the peak has had them

    @property
    def _trains(self) -> bool:
        """Whether nothing reads the scratch of a draw but the step that it is of, in which there is
        one draw."""
        if not (self.bucket and isinstance(self.projection, Perspective) and self.projection.sink):
            return False
        return not (self.projection.sink.stores or self.projection.sink.depths)

    def _find_unlisted(self) -> None:
        self.draws_unlisted = draws_unlisted(self.projection, self.rows.tile_backward)
        if self.draws_unlisted:
            self.beyond = "such frames are drawn without lists, slowly"

    def _allocate_lists(self) -> None:
        """With fewer checkpoints, where memory is short."""
        while True:
            try:
                sizes = self._pair_bytes(self.pair_capacity, self.checkpoint_capacity)
                self._own |= allocate_overlaid(self.device, sizes, self.lives)
                return
            except OutOfMemory:
                if not self.rows.tile_backward.on_demand or self.checkpoint_capacity <= 1:
                    raise
                self.checkpoint_capacity //= 2

    def _possible_pairs(self) -> int:
        return self._capacity * self.tiles

    def _most_pairs(self) -> int:
        reach = self.device.max_buffer
        most = min(self._possible_pairs(), most_pairs(self.projection.in_order, reach))
        if self.bucket and not self.rows.tile_backward.on_demand:
            # 1: a canvas of more tiles than that, for which allocation fails
            most = min(most, max(reach // _CHECKPOINT_BYTES - self.tiles, 1) * self.bucket)
        return min(most, reach // self.record_bytes) if self.gathers else most

    def _buckets(self, pairs: int) -> int:
        return pairs // self.bucket + self.tiles if self.bucket else 0

    def _most_checkpoints(self, pairs: int) -> int:
        most = self._buckets(pairs)
        if not self.rows.tile_backward.on_demand or not most:
            return most
        reach = self.device.max_buffer
        if budget := self.device.memory_budget():
            own = self.checkpoint_capacity * _CHECKPOINT_BYTES
            reach = min(reach, int(SHARE * (budget.free + own)))
        return max(1, min(most, reach // _CHECKPOINT_BYTES))

    def _pair_bytes(self, pairs: int, checkpoints: int = 0) -> dict[str, int]:
        nbytes = pair_bytes(self.projection.in_order, pairs) | self._overlaid
        if self.bucket:
            if not self.rows.tile_backward.on_demand:
                checkpoints = self._buckets(pairs)
            nbytes["checkpoints"] = checkpoints * _CHECKPOINT_BYTES
            nbytes["bucket_tiles"] = self._buckets(pairs) * contract.itemsize("bucket_tiles")
        if self.gathers:
            nbytes["pair_records"] = pairs * self.record_bytes
            nbytes["pair_subgroups"] = pairs * contract.itemsize("pair_subgroups")
        return nbytes

    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None:
        run, rest = build_all(self.device, self._passes(picture)), rest or recorder
        self.projection.record_forward(recorder, run)
        record_counts(recorder, run, self.projection, "tile count")
        record_lists(rest, run, self.projection, self.tiles)
        self._run_tiles(rest, run["draw"])
        if self.draws_unlisted:
            rest.run(run["draw unlisted"], indirect="unlisted_tiles")
        if picture == "image":
            self._record_behind(rest)

    def record_images(self, recorder: Recorder) -> None:
        """Projected splats -> the targets of all images of the projection, from one list of the
        tiles that any of them touches."""
        run, listed = self.pipelines, self.projection.listed
        record_counts(recorder, run, self.projection, f"tile count{listed}")
        record_lists(recorder, run, self.projection, self.tiles)
        for image in self.projection.images:
            if image != listed:
                record_packed(recorder, run, self.projection, image)
            self._run_tiles(recorder, run[f"draw{image}"])

    def record_again(self, recorder: Recorder) -> None:
        record_packed(recorder, self.pipelines, self.projection)
        self._run_tiles(recorder, self.pipelines["draw"])
        self._record_behind(recorder)

    def record_draw_backward(self, recorder: Recorder, score: str = "") -> None:
        run = self.pipelines[f"draw backward {score}".rstrip()]
        if self.gathers:
            recorder.fill("pair_subgroups")
        if self.bucket:
            recorder.run(run, indirect="buckets")
        else:
            self._run_tiles(recorder, run)
        if self.draws_unlisted:
            recorder.run(self.pipelines["draw backward unlisted"], indirect="unlisted_tiles")
        if self.gathers:
            recorder.run(self.pipelines["draw backward gather"], indirect="splat_groups")

    def _run_tiles(self, recorder: Recorder, run: Pipeline) -> None:
        """A workgroup for every tile, counted in the size that the shader has by default."""
        recorder.run(run, threads=(self.tiles * run.local_size[0],))

    def _meet_limit(self) -> bool:
        """Lists splats in order of depth from now on, so that without memory for all pairs the
        farthest are left out, or none are listed. Raises OutOfMemory with nothing changed."""
        if self.projection.in_order:
            return False
        assert isinstance(self.projection, Perspective)  # no other is not in order
        projection, capacity = replace(self.projection, in_order=True), self._capacity
        sizes = projection.sort_bytes(capacity) | pair_bytes(True, self.pair_capacity)
        sizes |= splat_bytes(True, capacity, self.width, self.height)
        missing = {name: nbytes for name, nbytes in sizes.items() if name not in self._own}
        more = allocate_all(self.device, missing)
        self.device.wait_idle()
        for name in ("tile_changes", "tile_cursors", "pair_keys"):
            self._own.pop(name).destroy()
        self._own |= more
        self.projection, self._plan = projection, self._plan._replace(projection=projection)
        self._find_unlisted()
        self.pipelines = build_all(self.device, self._passes())
        self._collect()
        return True
