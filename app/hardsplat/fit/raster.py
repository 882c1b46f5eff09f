"""Rasterizers of an image fit: those of app/hardsplat/raster, and the published ones, in which
every tile looks at every blob (slang's diff-splatting and balloted-splatting samples).

All draw `blobs` as splats2d, so image and gradients are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError, undone
from hardsplat.fit.blobs import BlobBuffers
from hardsplat.fit.config import FitConfig
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import destroy_all
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.projection import Projection, allocate_drawn, drawn_bytes
from hardsplat.raster.core.resolve import resolve
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.core.sort import RADIX, SORT_PASSES
from hardsplat.raster.hardware.rasterizer import HardwareRasterizer
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.tiled.lists import count_pass, counted_bytes
from hardsplat.raster.tiled.rasterizer import TiledRasterizer
from hardsplat.raster.tiled.rows import TiledOptions
from hardsplat.tables.fits import FIT_RASTERS, FitRaster
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.gradients import ATOMICS, TILE_BACKWARDS, Atomics, TileBackward

STORE = Sink(True, {"sink": "fits/image/sink_store.glsl"}, ("blobs",), ("d_blobs",))
ADAM = Sink(
    False,
    {"sink": "fits/image/sink_adam.glsl"},
    ("adam_settings", "rates", "frame", "blobs", "adam_blobs"),
    ("blobs", "adam_blobs"),
)


@dataclass(frozen=True)
class Flat(Projection):
    """The projection of blobs, which are on the image already. All are drawn in the order of their
    rows, so there is nothing to sort."""

    sink: Sink

    differentiates = True

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        sink, reads = self.sink, ("blobs", "camera", "counts")
        ordered = ("counts", "indirect", "order")
        taken = ("counts", "colors2d", "d_splats2d", *sink.reads)
        given = ("d_splats2d", *sink.writes)
        return [
            SORT_PASSES[0],
            ComputePass("fit order", "fits/image/order.comp", ("counts",), ordered, command),
            ComputePass("fit project", "fits/image/project.comp", reads, ("splats2d", "colors2d")),
            ComputePass("fit sink", "fits/image/sink.comp", taken, given, slots=sink.slots),
        ]

    def nbytes(self, capacity: int) -> dict[str, int]:
        sizes = {"order": capacity, "digit_totals": RADIX}  # the latter for the sort of tiles
        return drawn_bytes(capacity, self.sink) | contract.nbytes(sizes)

    def record_begin(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """counts.splats -> order, counts.visible, work sizes. Once for a number of blobs."""
        recorder.run(run["sizes"], threads=(1,))
        recorder.run(run["fit order"], indirect="splat_groups")

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        recorder.run(run["fit project"], indirect="splat_groups")

    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int, adds: bool = False
    ) -> None:
        recorder.run(run["fit sink"], indirect="splat_groups")


WORKGROUP = 128  # threads of a walk in which a tile is a subgroup
TILE_PIXELS = 256  # of the other walk: the fastest of 32 to 256 (docs/results/fits.md)
SUBGROUPS = (4, 8, 16, 32, 64, 128)


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
    summed = {"THRESHOLD": max(1, 8 * lanes // 32)} if backward.threshold else {}
    summing = {**dict(backward.slots), **slots, "atomics": atomics.slot}
    reads = ("counts", "tile_splats", "tile_reaches")
    drawn = (*reads, "target", "d_image", "frame", "d_splats2d")
    made = partial(ComputePass, full_subgroups=True, subgroup=lanes)
    forward = made("draw", "tiled/forward.comp", reads, ("target",), spec, slots)
    back, sums = "tiled/backward.comp", ("d_splats2d",)
    backward_draw = made("draw backward", back, drawn, sums, {**spec, **summed}, summing)
    return [count_pass(), forward, backward_draw]


def _threads(row: FitRaster, lanes: int, pixels: int) -> int:
    """Threads of a workgroup."""
    return max(WORKGROUP, lanes) if row.by_subgroup else pixels


def _grid(width: int, height: int, pixels: int) -> tuple[int, int]:
    """Tiles across and down; they are squares, or twice as wide as high."""
    bits = pixels.bit_length() - 1
    return -(-width // (1 << (bits + 1) // 2)), -(-height // (1 << bits // 2))


class WalkRasterizer:
    """`sorted` and `balloted`, of `parameters` on a canvas of width x height px; there are no pairs
    of tile and blob. name, reduction: rows of FIT_RASTERS, and of its reductions."""

    pair_capacity = 0

    def __init__(
        self,
        device: Device,
        parameters: BlobBuffers,
        width: int,
        height: int,
        name: str,
        reduction: str,
        options: FitConfig,
        sink: Sink,
    ):
        self.device, row = device, FIT_RASTERS[name]
        if (lanes := device.subgroup_size) not in SUBGROUPS:
            raise UserError(f"--rasterizer {name}: {device.name} has subgroups of {lanes} lanes")
        pixels = lanes if row.by_subgroup else TILE_PIXELS
        reductions = {name: TILE_BACKWARDS[name] for name in row.reductions}
        reduction = resolve(device, "reduction", reductions, reduction, "reduction")
        atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "atomics")
        self.rows = SimpleNamespace(names={"reduction": reduction})
        tiles, group = int(np.prod(_grid(width, height, pixels))), _threads(row, lanes, pixels)
        self.threads = -(-tiles * pixels // group) * group
        self.projection = Flat(sink)
        backward = reductions[reduction]
        walk = walk_passes(row, backward, ATOMICS[atomics], width, height, lanes, pixels)
        self.pipelines = build_all(device, [*self.projection.passes(), *walk])
        self._parameters, capacity, target = parameters, parameters.capacity, FORMATS["float32"]
        nbytes = self.projection.nbytes(capacity) | counted_bytes(capacity)
        self._own: dict[str, Buffer | Image] = {**allocate_drawn(device, nbytes)}
        with undone(self.destroy):
            for name in ("target", "d_image") if sink.stores else ("target",):
                self._own[name] = Image(device, width, height, target.vk, target.texel, name)
        self.resources = {**parameters.resources, **self._own}

    def reserve_pairs(
        self, pairs: int | None = None, checkpoints: int = 0, give_back: bool = False
    ) -> bool:
        return False

    def record_forward(self, recorder: Recorder) -> None:
        """blobs, camera, counts -> target."""
        self.projection.record_forward(recorder, self.pipelines)
        recorder.run(self.pipelines["tile count"], indirect="visible_groups")
        self._draw(recorder, self.pipelines["draw"])

    def record_backward(self, recorder: Recorder) -> None:
        """d_image, target -> d_splats2d -> the sink."""
        self._draw(recorder, self.pipelines["draw backward"])
        self.projection.record_backward(recorder, self.pipelines, 0)

    def _draw(self, recorder: Recorder, run: Pipeline) -> None:
        """Counts a dispatch in workgroups of the size that the shader has by default."""
        groups = self.threads // int(run.owner.spec["LOCAL_SIZE"])
        recorder.run(run, threads=(groups * run.local_size[0],))

    def destroy(self) -> None:
        destroy_all(self._own)


# behind a projection that is a Flat
FlatRasterizer = WalkRasterizer | TiledRasterizer | HardwareRasterizer


def rasterizer_of(device: Device, wanted: str) -> str:
    """The row of FIT_RASTERS, for 'auto' the first that runs here. Raises UserError."""
    return resolve(device, "rasterizer of blobs", FIT_RASTERS, wanted, "rasterizer")


def open_rasterizer(
    device: Device, parameters: BlobBuffers, width: int, height: int, options: FitConfig, sink: Sink
) -> FlatRasterizer:
    """The rasterizer that `options` name. Raises UserError for what the device cannot run,
    OutOfMemory with nothing allocated."""
    name, atomics = rasterizer_of(device, options.rasterizer), options.atomics
    row = FIT_RASTERS[name]
    reduction = row.reductions[0] if options.reduction == "auto" else options.reduction
    if reduction not in row.reductions:
        raise UserError(
            f"--reduction {reduction}: --rasterizer {name} has {', '.join(row.reductions)}"
        )
    if row.backend == "walk":
        return WalkRasterizer(device, parameters, width, height, name, reduction, options, sink)
    if row.backend == "tiled":
        tiled = TiledOptions(tile_backward=reduction, atomics=atomics)
        return TiledRasterizer(device, parameters, width, height, tiled, sink, Flat(sink))
    hardware = HardwareOptions(format=options.format, reduction=reduction, atomics=atomics)
    return HardwareRasterizer(device, parameters, width, height, hardware, sink, Flat(sink))
