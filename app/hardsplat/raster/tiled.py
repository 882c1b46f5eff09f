"""Splats in tiles of 16x16 pixels, in compute shaders alone: the canonical way (Kerbl et al. 2023), with what was published since.

Every splat lists exactly the tiles that its ellipse alpha >= 1/255 touches (Speedy-Splat, Hanson et al. 2025), and tiles sort what they list by depth, see
tile_lists.py. Everything stays on the GPU. The pairs' buffers have a capacity; a frame that asks for more is drawn without some of them and says so in
`counts.pairs_wanted`, see `make_room`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hardsplat import contract
from hardsplat.errors import OutOfMemory, UserError
from hardsplat.footprint import Need
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, Image, allocate_all, buffer_in
from hardsplat.gpu.passes import ComputePass, Pipeline, build_all
from hardsplat.gpu.recorder import Recorder
from hardsplat.gpu.shader import Source
from hardsplat.raster import stochastic
from hardsplat.raster.options import Options, Stochastic
from hardsplat.raster.parameters import Parameters, pairs_wanted
from hardsplat.raster.projection import Perspective, Projection, for_images, scored
from hardsplat.raster.rasterizer import Drawn
from hardsplat.raster.resolve import name_of, resolve
from hardsplat.raster.sinks import STORE, Sink
from hardsplat.raster.tile_lists import count_pass, grid, is_local, list_passes, pair_bytes, record_counts, record_lists, record_packed, splat_bytes
from hardsplat.variants.atomics import ATOMICS, Atomics
from hardsplat.variants.formats import FORMATS
from hardsplat.variants.pictures import PICTURES
from hardsplat.variants.tile_backwards import TILE_BACKWARDS, TileBackward

log = logging.getLogger("hardsplat")
TILE = contract.CONSTANTS["TILE"]
# Pixels of a subgroup, at least; in Morton order they are a rectangle of 8x4 or 16x8, and splats are culled against it. Backward, where a visit ends
# in nine sums over the subgroup, fewer and larger ones pay.
FORWARD_PIXELS, BACKWARD_PIXELS = 32, 128
MOST_PIXELS = 8  # of a lane
PARTS = 1  # workgroups that walk a tile together
PAIRS_PER_SPLAT, FEWEST_PAIRS = 2, 1 << 20  # room at first: splats touch 2 to 3 tiles in trained scenes, many more in small ones
ROOM = 1.5  # pairs that are made room for, over those that did not fit
PAIRS = Need(12.0 * PAIRS_PER_SPLAT, 8.0 * PAIRS_PER_SPLAT)  # of a splat, in two buffers; 16 in four where lists are in order
_CHECKPOINT_BYTES = TILE * TILE * contract.itemsize("checkpoints")  # of a bucket


@dataclass(frozen=True)
class TiledOptions(Options):
    """Rows of the registries in app/hardsplat/variants; 'auto' takes the first row that the device can run."""

    tile_backward: str = "auto"
    tile_threshold: int = 8  # distwar: contributing lanes of 32 that make a reduction worth it
    atomics: str = "auto"
    antialiased: bool = False  # opacities times the compensation of the dilation
    lens: str = "pinhole"  # or "distorted", which takes cameras of both kinds
    stochastic: Stochastic | None = None  # gradients from perturbed images, without a backward pass of tiles
    gradient: str = "auto"  # auto: analytic; stochastic: see above


@dataclass(frozen=True)
class TiledRows:
    """The registry rows that the rasterizer is made of, and their names there."""

    tile_backward: TileBackward
    atomics: Atomics
    names: Mapping[str, str | int] = field(default_factory=dict, compare=False)

    @classmethod
    def resolve(cls, device: Device, options: TiledOptions) -> TiledRows:
        if options.stochastic and options.stochastic.gather == "draw":
            raise UserError("--gather draw: takes the graphics pipeline; use --gather rows with --rasterizer tiled")
        if options.gradient == "order-free":
            raise UserError(
                "--gradient order-free: draws samples through the graphics pipeline; use --rasterizer hardware, or leave --gradient out: tiles need no order of fragments"
            )
        backward = resolve(device, "backward pass of tiles", TILE_BACKWARDS, options.tile_backward, "--tile-backward")  # the forward pass has the same needs
        atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "--atomics")
        if options.stochastic:
            return cls(backward, atomics, {"gather": "rows"})
        names = {"tile_backward": name_of(TILE_BACKWARDS, backward), "atomics": name_of(ATOMICS, atomics)}
        return cls(backward, atomics, names)


def pixels_of(lanes: int, least: int) -> int:
    """Pixels of a lane."""
    return min(max(1, least // lanes), MOST_PIXELS)


def bucket_of(row: TileBackward, lanes: int) -> int:
    """Splats of a bucket; 0 for a backward pass that takes a tile at once."""
    return 0 if row.bucket is None else row.bucket or lanes


def subgroups_of(lanes: int, least: int) -> int:
    """Subgroups that have the pixels of a tile."""
    return TILE * TILE // (lanes * pixels_of(lanes, least))


def passes(
    rows: TiledRows, width: int, height: int, sh_planes: int, sink: Sink | None, lanes: int, threshold: int = 8, antialiased: bool = False, picture: str = "image"
) -> list[ComputePass]:
    """Every pass of a frame of 3D splats, forward and, unless the sink is None, backward, on a canvas of width x height px, for subgroups of `lanes`."""
    return all_passes(Perspective(sh_planes, sink, antialiased, in_order=not is_local(rows.tile_backward, lanes), lanes=lanes), rows, width, height, lanes, threshold, picture)


def first(device: Device, options: TiledOptions) -> TiledOptions:
    """These options, of which none is timed. Raises UserError for what the device cannot run."""
    TiledRows.resolve(device, options)
    return options


def sources(device: Device, options: TiledOptions) -> set[Source]:
    """The shaders of a rasterizer with these options."""
    return {source for p in passes(TiledRows.resolve(device, options), 1, 1, 1, STORE, device.subgroup_size) for source in p.sources()}


def all_passes(around: Projection, rows: TiledRows, width: int, height: int, lanes: int, threshold: int, picture: str = "image") -> list[ComputePass]:
    """Those of a projection, and from splats2d and order to the target; with a sink, to d_splats2d."""
    across, down = grid(width, height)
    tiles = {"TILES_X": across, "TILES_Y": down}
    walk = {**tiles, **walk_of(lanes, FORWARD_PIXELS)}
    back = {**tiles, **walk_of(lanes, BACKWARD_PIXELS if rows.tile_backward.cull else FORWARD_PIXELS)}
    bucket = bucket_of(rows.tile_backward, lanes) if around.differentiates else 0
    share = {"BUCKET": bucket} if bucket else {}
    lists = ("tile_starts", "pair_splats", "tile_splats", "tile_reaches")
    summed = {**tiles, **share, "PARTS": 1 if _by_splat(rows.tile_backward) else PARTS}
    stored = ("checkpoints", "reaches") if bucket else ()
    slots = {"walk": "tiled/walk.glsl", "share": "tiled/share_tile.glsl", "alpha": PICTURES[picture].alpha}
    slots["checkpoint"] = "tiled/checkpoint_store.glsl" if stored else "tiled/checkpoint_none.glsl"
    count = count_pass(width, height, around.in_order)
    spec = {**walk, **share, "BY_TWO": True}
    draw = ComputePass("draw", "tiled/forward.comp", reads=(*lists, "tile_order"), writes=("target", *stored), spec=spec, slots=slots, full_subgroups=True)
    reads = (*lists, *(stored or ("tile_order",)))
    backward = _backward_passes(rows, reads, {**back, **share}, tiles, threshold, around.sink) if around.differentiates and around.sink else []
    images = for_images(around, [count, draw]) if picture == "image" else [count, draw]
    listed = [around.image(count, around.listed)] if around.listed else []
    return [
        *around.passes({}, picture),
        *images,
        *listed,
        *list_passes(around.in_order, width, height, summed, lanes),
        *backward,
        *around.gather_passes(),
    ]


def walk_of(lanes: int, least: int) -> dict[str, int]:
    """Specialization constants of tiled/walk.glsl for subgroups with so many pixels."""
    return {"LOCAL_SIZE": TILE * TILE // (pixels_of(lanes, least) * PARTS), "LANES": lanes, "PER_LANE": pixels_of(lanes, least)}


def _by_splat(row: TileBackward) -> bool:
    return not row.slots


def _backward_passes(rows: TiledRows, reads: tuple[str, ...], walk: dict, tiles: dict, threshold: int, sink: Sink) -> list[ComputePass]:
    row, scores = rows.tile_backward, sink.scores
    if "BUCKET" in walk:
        walk = {**walk, "GROUP_PIXELS": walk["LANES"] * pixels_of(walk["LANES"], FORWARD_PIXELS)}
    if _by_splat(row):
        walk = {name: n for name, n in walk.items() if name != "PER_LANE"} | {"LOCAL_SIZE": walk["LANES"]}
    else:
        walk = {**walk, "CULL": row.cull, **({"THRESHOLD": threshold} if "THRESHOLD" in row.spec else {})}
    slots = {"atomics": rows.atomics.slot, **({} if _by_splat(row) else {"walk": "tiled/walk.glsl"}), **dict(row.slots)}
    reads = (*reads, "target", "d_image", "frame")
    if not row.gathers:
        return scored(ComputePass("draw backward", row.shader, (*reads, "d_splats2d"), ("d_splats2d",), walk, slots, full_subgroups=True), scores)
    records, lanes = ("pair_records", "pair_subgroups"), walk["LANES"]
    gathered, spec = ("counts", "tile_starts", "pair_splats", "tile_splats", "tile_reaches", *records), {**tiles, "LANES": lanes, "SUBGROUPS": subgroups_of(lanes, BACKWARD_PIXELS)}
    return [
        *scored(ComputePass("draw backward", row.shader, (*reads, "pair_subgroups"), records, {**walk, "BY_PAIR": True}, slots, full_subgroups=True), scores),
        ComputePass(
            "draw backward gather",
            "tiled/gather.comp",
            (*gathered, *(("d_splats2d",) if sink.depths else ())),
            ("d_splats2d",),
            spec,
            {"store": f"tiled/gather_{'add' if sink.depths else 'store'}.glsl"},
            full_subgroups=True,
        ),
    ]


def plan(
    device: Device, sh_planes: int, width: int, height: int, options: TiledOptions, sink: Sink | None, projection: Projection | None = None
) -> tuple[Projection, TiledRows, int, int, int, int]:
    """What `all_passes` needs to know of a rasterizer. Raises UserError for options that the device cannot run."""
    rows = TiledRows.resolve(device, options)
    threshold = max(1, options.tile_threshold * device.subgroup_size // 32)
    estimator, in_order = options.stochastic, not is_local(rows.tile_backward, device.subgroup_size)
    projection = projection or stochastic.projection(device, sh_planes, sink, options.antialiased, estimator, options.lens, in_order)
    return projection, rows, width, height, device.subgroup_size, threshold


class TiledRasterizer:
    """Draws `parameters` on a canvas of width x height px. Resources: its own and those of `parameters`, by contract name.

    sink: None for no backward pass. projection: another than of 3D splats, with a sink of its own. Raises UserError for options that the device cannot run,
    OutOfMemory with nothing allocated.
    """

    def __init__(self, device: Device, parameters: Drawn, width: int, height: int, options: TiledOptions, sink: Sink | None, projection: Projection | None = None):
        self.device, self.width, self.height = device, width, height
        self._passes = plan(device, (parameters.sh_degree + 1) ** 2, width, height, options, sink, projection)
        self.projection, rows = self._passes[:2]
        self.rows = rows
        self.tiles = int(np.prod(grid(width, height)))
        self.pipelines = build_all(device, all_passes(*self._passes))
        capacity = parameters.capacity
        self._parameters, self._capacity = parameters, capacity
        self.bucket = bucket_of(rows.tile_backward, device.subgroup_size) if self.projection.differentiates else 0
        self.gathers = self.projection.differentiates and rows.tile_backward.gathers
        self.record_bytes = subgroups_of(device.subgroup_size, BACKWARD_PIXELS) * contract.CONSTANTS["GRADIENTS"] * contract.itemsize("pair_records")  # of a pair
        self.most = self._most()  # pairs that there can be
        self._said = False  # that pairs are left out
        self.room = min(self.most, max(PAIRS_PER_SPLAT * capacity, FEWEST_PAIRS))
        self._own: dict[str, Buffer | Image] = {}
        try:
            self._allocate(capacity)
        except OutOfMemory:
            self.destroy()
            raise
        if options.stochastic and sink and isinstance(parameters, Parameters):
            parameters.set_perturbations(dict(options.stochastic.perturbations))
        self.resources = {**parameters.all, **self._own}

    def _allocate(self, capacity: int) -> None:
        device, size, own = self.device, (self.width, self.height), self._own
        own |= self.projection.allocate(device, capacity)
        nbytes = splat_bytes(self.projection.in_order, capacity, *size)
        if self.bucket:
            nbytes["reaches"] = self.tiles * subgroups_of(device.subgroup_size, FORWARD_PIXELS) * contract.itemsize("reaches")
        own |= allocate_all(device, nbytes)
        if "tile_changes" in nbytes:
            buffer_in(own, "tile_changes").fill(0)  # each frame leaves it clean
        own |= self._pairs(self.room)
        format = FORMATS["float32"]
        for image in self.projection.images:
            name = f"target{image}".replace(" ", "_")
            own[name] = Image(device, *size, format.vk, format.texel, name)
        if self.projection.differentiates and self.projection.sink and self.projection.sink.stores:  # in training it is the loss's
            own["d_image"] = Image(device, *size, format.vk, format.texel, "d_image")

    def _most(self) -> int:
        """Pairs that there can be: of every splat with every tile, or as many as descriptors reach."""
        reach, pair = self.device.max_buffer, contract.itemsize("pair_splats" if self.projection.in_order else "pair_keys")
        most = min(self._capacity * self.tiles, reach // pair)
        if self.bucket:
            most = min(most, (reach // _CHECKPOINT_BYTES - self.tiles) * self.bucket)
        return min(most, reach // self.record_bytes) if self.gathers else most

    def _pairs(self, room: int) -> dict[str, Buffer]:
        nbytes = pair_bytes(self.projection.in_order, room)
        if self.bucket:
            nbytes["checkpoints"] = (room // self.bucket + self.tiles) * _CHECKPOINT_BYTES
        if self.gathers:
            nbytes |= {"pair_records": room * self.record_bytes, "pair_subgroups": room * contract.itemsize("pair_subgroups")}
        return allocate_all(self.device, nbytes)

    def record_forward(self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None) -> None:
        """parameters, camera, frame, counts -> target. rest: another recorder, for what comes once `counts` says how many pairs there are."""
        run = build_all(self.device, all_passes(*self._passes, picture))
        self.projection.record_forward(recorder, run)
        record_counts(recorder, run, self.projection, "tile count")
        rest = rest or recorder
        record_lists(rest, run, self.projection, self.tiles)
        rest.run(run["draw"], threads=self._threads(run["draw"]))

    def record_images(self, recorder: Recorder) -> None:
        """Projected splats -> the targets of all images of the projection, from one list of the tiles that any of them touches."""
        run, listed = self.pipelines, self.projection.listed
        record_counts(recorder, run, self.projection, f"tile count{listed}")
        record_lists(recorder, run, self.projection, self.tiles)
        for image in self.projection.images:
            if image != listed:
                record_packed(recorder, run, self.projection, image)
            recorder.run(run[f"draw{image}"], threads=self._threads(run["draw"]))

    def record_step(self, recorder: Recorder, compare: Callable[[Recorder], None]) -> None:
        """parameters, camera, frame, counts -> gradients -> the sink. compare: records the loss between the images and what it makes of them."""
        self.projection.record_step(recorder, self.pipelines, self, compare, self._capacity)

    def record_gather(self, recorder: Recorder, pair: int) -> None:
        """loss_differences -> splat_differences."""
        self.projection.record_gather(recorder, self.pipelines, pair, self.height)

    def record_backward(self, recorder: Recorder) -> None:
        """d_image, target, the tiles' lists -> d_splats2d -> the sink."""
        self._record_draw_backward(recorder, "draw backward")
        self.projection.record_backward(recorder, self.pipelines, self._capacity)

    def record_again(self, recorder: Recorder) -> None:
        """Splats whose colours alone are others than in the last draw -> target, by the same lists."""
        record_packed(recorder, self.pipelines, self.projection)
        recorder.run(self.pipelines["draw"], threads=self._threads(self.pipelines["draw"]))

    def record_draw_backward(self, recorder: Recorder) -> None:
        """d_image, target, the tiles' lists -> d_splats2d."""
        self._record_draw_backward(recorder, "draw backward")

    def record_score(self, recorder: Recorder, score: str) -> None:
        """d_image or weights, target, the tiles' lists -> d_splats2d, which must be clean. score: one of SCORES."""
        self._record_draw_backward(recorder, f"draw backward {score}")

    def _record_draw_backward(self, recorder: Recorder, name: str) -> None:
        run = self.pipelines[name]
        if self.gathers:
            recorder.fill("pair_subgroups")
        recorder.run(run, **({"indirect": "buckets"} if self.bucket else {"threads": self._threads(run)}))
        if self.gathers:
            recorder.run(self.pipelines["draw backward gather"], indirect="splat_groups")

    def _threads(self, pipeline: Pipeline) -> tuple[int]:
        """Of a workgroup for every tile, or part of it, counted in the size that the shader has by default."""
        return (self.tiles * PARTS * pipeline.local_size[0],)

    def make_room(self, wanted: int | None = None) -> bool:
        """For `wanted` pairs, by default what the last frame (which must be done) asked for. True where the buffers were replaced: `resources` is
        another, and what was recorded must be recorded anew. Raises OutOfMemory with nothing changed."""
        wanted = pairs_wanted(self._parameters.counts) if wanted is None else wanted
        limited = wanted > self.most and self.most < self._capacity * self.tiles  # else there are no more pairs, and `wanted` looks ahead
        if replaced := limited and not self.projection.in_order:
            self._put_in_order()
        if limited and not self._said:
            self._said = True
            log.warning("frames ask for up to %s pairs of tile and splat, %s have room on %s: the farthest are not drawn", wanted, self.most, self.device.name)
        if min(wanted, self.most) <= self.room:
            return replaced
        room = min(int(wanted * ROOM), self.most)
        pairs = self._pairs(room)
        self.device.wait_idle()
        for name, buffer in pairs.items():
            self._own[name].destroy()
            self._own[name] = buffer
        self.room, self.resources = room, {**self.resources, **pairs}
        return True

    def _put_in_order(self) -> None:
        """Lists splats in order of depth from now on, so that without room for all pairs the farthest are left out. Raises OutOfMemory with nothing changed."""
        assert isinstance(self.projection, Perspective)  # no other is not in order
        projection = replace(self.projection, in_order=True)
        sizes = projection.sort_bytes(self._capacity) | splat_bytes(True, self._capacity, self.width, self.height) | pair_bytes(True, self.room)
        more = allocate_all(self.device, {name: nbytes for name, nbytes in sizes.items() if name not in self._own})
        self.device.wait_idle()
        for name in ("tile_changes", "tile_cursors", "pair_keys"):
            self._own.pop(name).destroy()
        self._own |= more
        self.projection, self._passes = projection, (projection, *self._passes[1:])
        self.pipelines, self.most = build_all(self.device, all_passes(*self._passes)), self._most()
        self.resources = {**self._parameters.all, **self._own}

    def destroy(self) -> None:
        for resource in self._own.values():
            resource.destroy()
