"""The published rasterizers of image fits, in which every tile looks at every blob (slang's
diff-splatting and balloted-splatting samples)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.fit.blobs import BlobBuffers
from hardsplat.fit.flat import Flat
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.resolve import name_of, resolve
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.tiled.lists import count_pass, counted_bytes
from hardsplat.tables.fits import FIT_RASTERS, FitRaster
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.reductions import ATOMICS, Atomics
from hardsplat.tables.tiles import TILE_BACKWARDS, TileBackward

WORKGROUP = 128  # threads of the walk of whom a tile is a subgroup
SUBGROUPS = (8, 16, 32, 64)


@dataclass(frozen=True)
class FitOptions:
    """Options of rasterizers. rasterizer, reduction: rows of FIT_RASTERS, and of its reductions.
    tile_pixels: of `sorted`. subgroup_size: of `sorted` and `balloted`, whose tiles it is; 0: the
    device's. format: of the target of `hardware`."""

    rasterizer: str = "auto"
    reduction: str = "auto"
    atomics: str = "auto"
    format: str = "float32"
    tile_pixels: int = 256
    subgroup_size: int = 0


def walk_passes(
    row: FitRaster,
    backward: TileBackward,
    atomics: Atomics,
    width: int,
    height: int,
    lanes: int,
    pixels: int,
) -> list[ComputePass]:
    """From splats2d and order to d_splats2d, by tiles of `pixels` pixels that look at every blob.
    lanes: of a subgroup."""
    across, down = _grid(width, height, pixels)
    sizes = {"LOCAL_SIZE": _threads(row, lanes, pixels), "LANES": lanes, "TILE_PIXELS": pixels}
    spec = {"TILES_X": across, "TILES_Y": down, **sizes}
    slots = {"walk": row.walk, "share": "fits/image/share.glsl"}
    summed = {"THRESHOLD": max(1, 8 * lanes // 32)} if "THRESHOLD" in backward.spec else {}
    summing = {**dict(backward.slots), **slots, "atomics": atomics.slot}
    reads = ("counts", "tile_splats", "tile_reaches")
    drawn = (*reads, "target", "d_image", "frame", "d_splats2d")
    made = partial(ComputePass, full_subgroups=True, subgroup=lanes)
    forward = made("draw", "tiled/forward.comp", reads, ("target",), spec, slots)
    backwards = ("tiled/backward.comp", drawn, ("d_splats2d",), {**spec, **summed}, summing)
    return [count_pass(), forward, made("draw backward", *backwards)]


def _threads(row: FitRaster, lanes: int, pixels: int) -> int:
    """Threads of a workgroup."""
    return max(WORKGROUP, lanes) if row.by_subgroup else pixels


def _grid(width: int, height: int, pixels: int) -> tuple[int, int]:
    """Tiles across and down; they are squares, or twice as wide as high."""
    bits = pixels.bit_length() - 1
    return -(-width // (1 << (bits + 1) // 2)), -(-height // (1 << bits // 2))


@dataclass(frozen=True)
class WalkRows:
    names: dict[str, str | int] = field(default_factory=dict)


class WalkRasterizer:
    """`sorted` and `balloted`, of `parameters` on a canvas of width x height px."""

    room = 0

    def __init__(
        self,
        device: Device,
        parameters: BlobBuffers,
        width: int,
        height: int,
        options: FitOptions,
        sink: Sink,
    ):
        self.width, self.height = width, height
        row = FIT_RASTERS[options.rasterizer]
        lanes = options.subgroup_size or device.subgroup_size
        if lanes not in device.subgroup_sizes or lanes not in SUBGROUPS:
            sizes = " or ".join(str(n) for n in device.subgroup_sizes if n in SUBGROUPS)
            raise UserError(
                f"--subgroup-size {lanes}: {device.name} makes subgroups of {sizes} lanes alone"
            )
        pixels = lanes if row.by_subgroup else max(options.tile_pixels, lanes)
        reductions = {name: TILE_BACKWARDS[name] for name in row.reductions}
        backward = resolve(device, "reduction", reductions, options.reduction, "--reduction")
        atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "--atomics")
        tiles = int(np.prod(_grid(width, height, pixels)))
        name = name_of(TILE_BACKWARDS, backward)
        self.rows = WalkRows({"reduction": name, "subgroup_size": lanes, "tile_pixels": pixels})
        group = _threads(row, lanes, pixels)
        self.threads = -(-tiles * pixels // group) * group
        self.projection = Flat(sink)
        walk = walk_passes(row, backward, atomics, width, height, lanes, pixels)
        self.pipelines = build_all(device, [*self.projection.passes(), *walk])
        capacity, target = parameters.capacity, FORMATS["float32"]
        own: dict[str, Buffer | Image] = {**allocate_all(device, counted_bytes(capacity))}
        self._own = own
        try:
            own |= self.projection.allocate(device, capacity)
            for name in ("target", "d_image") if sink.stores else ("target",):
                own[name] = Image(device, width, height, target.vk, target.texel, name)
        except OutOfMemory:
            self.destroy()
            raise
        self.resources = {**parameters.all, **own}

    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None:
        """blobs, camera, counts -> target. There is no other picture, and there are no pairs."""
        self.projection.record_forward(recorder, self.pipelines)
        recorder.run(self.pipelines["tile count"], indirect="visible_groups")
        self._draw(recorder, self.pipelines["draw"])

    def record_backward(self, recorder: Recorder) -> None:
        """d_image, target -> d_splats2d -> the sink."""
        self._draw(recorder, self.pipelines["draw backward"])
        self.projection.record_backward(recorder, self.pipelines, 0)

    def record_score(self, recorder: Recorder, score: str) -> None:
        raise ValueError("blobs have no scores")

    def _draw(self, recorder: Recorder, run: Pipeline) -> None:
        """Counts a dispatch in workgroups of the size that the shader has by default."""
        groups = self.threads // int(run.owner.spec["LOCAL_SIZE"])
        recorder.run(run, threads=(groups * run.local_size[0],))

    def make_room(self, wanted: int | None = None) -> bool:
        """There are no pairs of tile and blob."""
        return False

    def destroy(self) -> None:
        for resource in self._own.values():
            resource.destroy()
