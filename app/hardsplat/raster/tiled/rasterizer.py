"""Splats in tiles of 16x16 pixels, in compute shaders alone: the canonical way (Kerbl et al. 2023),
with what was published since.

Every splat lists exactly the tiles that its ellipse alpha >= 1/255 touches (Speedy-Splat, Hanson et
al. 2025), and tiles sort what they list by depth, see tile_lists.py. Everything stays on the GPU.
The pairs' buffers have a capacity; a frame that asks for more is drawn without some of them and
says so in `counts.pairs_wanted`, see `make_room`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import Need
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all, buffer_in, exchange
from hardsplat.gpu.passes.declared import Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.parameters import Parameters, pairs_wanted
from hardsplat.raster.core.projection import Perspective
from hardsplat.raster.core.protocols import Drawn, Projection
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.tiled.lists import (
    grid,
    most_pairs,
    pair_bytes,
    record_counts,
    record_lists,
    record_packed,
    splat_bytes,
)
from hardsplat.raster.tiled.passes import (
    all_passes,
    backward_subgroups,
    bucket_of,
    forward_subgroups,
    plan,
    threads_of,
)
from hardsplat.raster.tiled.rows import TiledOptions
from hardsplat.tables.formats import FORMATS

log = logging.getLogger("hardsplat")
TILE = contract.CONSTANTS["TILE"]
PAIRS_PER_SPLAT, FEWEST_PAIRS = (
    2,
    1 << 20,
)  # room at first: splats touch 2 to 3 tiles in trained scenes, many more in small ones
ROOM = 1.5  # pairs that are made room for, over those that did not fit
PAIRS = Need(
    16.0 * PAIRS_PER_SPLAT, 8.0 * PAIRS_PER_SPLAT
)  # of a splat, in four buffers; 12 in two where tiles sort their own splats
_CHECKPOINT_BYTES = TILE * TILE * contract.itemsize("checkpoints")  # of a bucket


class TiledRasterizer:
    """Draws `parameters` on a canvas of width x height px. Resources: its own and those of
    `parameters`, by contract name.

    sink: None for no backward pass. projection: another than of 3D splats, with a sink of its own.
    Raises UserError for options that the device cannot run, OutOfMemory with nothing allocated.
    """

    def __init__(
        self,
        device: Device,
        parameters: Drawn,
        width: int,
        height: int,
        options: TiledOptions,
        sink: Sink | None,
        projection: Projection | None = None,
    ):
        self.device, self.width, self.height = device, width, height
        self._passes = plan(
            device, (parameters.sh_degree + 1) ** 2, width, height, options, sink, projection
        )
        self.projection, rows = self._passes[:2]
        self.rows = rows
        self.tiles = int(np.prod(grid(width, height)))
        self.pipelines = build_all(device, all_passes(*self._passes))
        capacity = parameters.capacity
        self._parameters, self._capacity = parameters, capacity
        self.bucket = (
            bucket_of(rows.tile_backward, device.subgroup_size)
            if self.projection.differentiates
            else 0
        )
        self.gathers = self.projection.differentiates and rows.tile_backward.gathers
        self.record_bytes = (
            backward_subgroups(device.subgroup_size)
            * contract.CONSTANTS["GRADIENTS"]
            * contract.itemsize("pair_records")
        )  # of a pair
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
            nbytes["reaches"] = (
                self.tiles * forward_subgroups(device.subgroup_size) * contract.itemsize("reaches")
            )
        own |= allocate_all(device, nbytes)
        if "tile_changes" in nbytes:
            buffer_in(own, "tile_changes").fill(0)  # each frame leaves it clean
        own |= self._pairs(self.room)
        format = FORMATS["float32"]
        for image in self.projection.images:
            name = f"target{image}".replace(" ", "_")
            own[name] = Image(device, *size, format.vk, format.texel, name)
        if (
            self.projection.differentiates and self.projection.sink and self.projection.sink.stores
        ):  # in training it is the loss's
            own["d_image"] = Image(device, *size, format.vk, format.texel, "d_image")

    def _most(self) -> int:
        """Pairs that there can be: of every splat with every tile, or as many as descriptors
        reach."""
        reach = self.device.max_buffer
        most = min(self._capacity * self.tiles, most_pairs(self.projection.in_order, reach))
        if self.bucket:
            most = min(
                most, max(reach // _CHECKPOINT_BYTES - self.tiles, 1) * self.bucket
            )  # 1: a canvas of more tiles than that, for which allocation fails
        return min(most, reach // self.record_bytes) if self.gathers else most

    def _pairs(self, room: int) -> dict[str, Buffer]:
        nbytes = pair_bytes(self.projection.in_order, room)
        if self.bucket:
            buckets = room // self.bucket + self.tiles
            nbytes |= {
                "checkpoints": buckets * _CHECKPOINT_BYTES,
                "bucket_tiles": buckets * contract.itemsize("bucket_tiles"),
            }
        if self.gathers:
            nbytes |= {
                "pair_records": room * self.record_bytes,
                "pair_subgroups": room * contract.itemsize("pair_subgroups"),
            }
        return allocate_all(self.device, nbytes)

    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None:
        """parameters, camera, frame, counts -> target. rest: another recorder, for what comes once
        `counts` says how many pairs there are."""
        run = build_all(self.device, all_passes(*self._passes, picture))
        self.projection.record_forward(recorder, run)
        record_counts(recorder, run, self.projection, "tile count")
        rest = rest or recorder
        record_lists(rest, run, self.projection, self.tiles)
        rest.run(run["draw"], threads=self._threads(run["draw"]))

    def record_images(self, recorder: Recorder) -> None:
        """Projected splats -> the targets of all images of the projection, from one list of the
        tiles that any of them touches."""
        run, listed = self.pipelines, self.projection.listed
        record_counts(recorder, run, self.projection, f"tile count{listed}")
        record_lists(recorder, run, self.projection, self.tiles)
        for image in self.projection.images:
            if image != listed:
                record_packed(recorder, run, self.projection, image)
            recorder.run(run[f"draw{image}"], threads=self._threads(run["draw"]))

    def record_step(self, recorder: Recorder, compare: Callable[[Recorder], None]) -> None:
        """parameters, camera, frame, counts -> gradients -> the sink. compare: records the loss
        between the images and what it makes of them."""
        self.projection.record_step(recorder, self.pipelines, self, compare, self._capacity)

    def record_backward(self, recorder: Recorder) -> None:
        """d_image, target, the tiles' lists -> d_splats2d -> the sink."""
        self._record_draw_backward(recorder, "draw backward")
        self.projection.record_backward(recorder, self.pipelines, self._capacity)

    def record_again(self, recorder: Recorder) -> None:
        """Splats whose colours alone are others than in the last draw -> target, by the same
        lists."""
        record_packed(recorder, self.pipelines, self.projection)
        recorder.run(self.pipelines["draw"], threads=self._threads(self.pipelines["draw"]))

    def record_draw_backward(self, recorder: Recorder) -> None:
        """d_image, target, the tiles' lists -> d_splats2d."""
        self._record_draw_backward(recorder, "draw backward")

    def record_score(self, recorder: Recorder, score: str) -> None:
        """d_image or weights, target, the tiles' lists -> d_splats2d, which must be clean. score:
        one of SCORES."""
        self._record_draw_backward(recorder, f"draw backward {score}")

    def _record_draw_backward(self, recorder: Recorder, name: str) -> None:
        run = self.pipelines[name]
        if self.gathers:
            recorder.fill("pair_subgroups")
        recorder.run(
            run, **({"indirect": "buckets"} if self.bucket else {"threads": self._threads(run)})
        )
        if self.gathers:
            recorder.run(self.pipelines["draw backward gather"], indirect="splat_groups")

    def _threads(self, pipeline: Pipeline) -> tuple[int]:
        return (threads_of(self.tiles, pipeline.local_size[0]),)

    def make_room(self, wanted: int | None = None) -> bool:
        """For `wanted` pairs, by default what the last frame (which must be done) asked for. True
        where the buffers were replaced: `resources` is another, and what was recorded must be
        recorded anew. Raises OutOfMemory with nothing changed."""
        wanted = pairs_wanted(self._parameters.counts) if wanted is None else wanted
        limited = (
            wanted > self.most and self.most < self._capacity * self.tiles
        )  # else there are no more pairs, and `wanted` looks ahead
        if replaced := limited and not self.projection.in_order:
            self._put_in_order()
        if limited and not self._said:
            self._said = True
            log.warning(
                "frames ask for up to %s pairs of tile and splat, %s have room on %s: "
                "the farthest are not drawn",
                wanted,
                self.most,
                self.device.name,
            )
        if min(wanted, self.most) <= self.room:
            return replaced
        room = min(int(wanted * ROOM), self.most)
        pairs = self._pairs(room)
        exchange(self.device, self._own, pairs)
        self.room, self.resources = room, {**self.resources, **pairs}
        return True

    def _put_in_order(self) -> None:
        """Lists splats in order of depth from now on, so that without room for all pairs the
        farthest are left out. Raises OutOfMemory with nothing changed."""
        assert isinstance(self.projection, Perspective)  # no other is not in order
        projection = replace(self.projection, in_order=True)
        sizes = (
            projection.sort_bytes(self._capacity)
            | splat_bytes(True, self._capacity, self.width, self.height)
            | pair_bytes(True, self.room)
        )
        more = allocate_all(
            self.device, {name: nbytes for name, nbytes in sizes.items() if name not in self._own}
        )
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
