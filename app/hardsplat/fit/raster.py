"""Rasterizers of an image fit: those of app/hardsplat/raster behind a flat projection in the order
of rows, and the published ones, in which every tile looks at every blob (slang's diff-splatting and
balloted-splatting samples).

All draw `blobs` as splats2d, so image and gradients are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.fit.blobs import BlobBuffers
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer, allocate_all
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.projection import Plain, allocate_drawn
from hardsplat.raster.core.resolve import name_of, resolve
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.core.sort import RADIX, SORT_PASSES
from hardsplat.raster.hardware.rasterizer import HardwareRasterizer
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.tiled.lists import count_pass, counted_bytes
from hardsplat.raster.tiled.rasterizer import TiledRasterizer
from hardsplat.raster.tiled.rows import TiledOptions
from hardsplat.tables.fits import FIT_RASTERS, FitRaster
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.reductions import ATOMICS, Atomics
from hardsplat.tables.tiles import TILE_BACKWARDS, TileBackward

WORKGROUP = 128  # threads of the walk of whom a tile is a subgroup
SUBGROUPS = (8, 16, 32, 64)
STORE = Sink(True, {"sink": "fits/image/sink_store.glsl"}, ("blobs",), ("d_blobs",))
ADAM = Sink(
    False,
    {"sink": "fits/image/sink_adam.glsl"},
    ("adam_settings", "rates", "frame", "blobs", "adam_blobs"),
    ("blobs", "adam_blobs"),
)


@dataclass(frozen=True)
class FitOptions:
    """rasterizer, reduction: rows of FIT_RASTERS, and of the reductions that it has. tile_pixels:
    of `sorted`. subgroup_size: of `sorted` and `balloted`, whose tiles it is; 0: the device's.
    format: of the target of `hardware`."""

    rasterizer: str = "auto"
    reduction: str = "auto"
    atomics: str = "auto"
    format: str = "float32"
    tile_pixels: int = 256
    subgroup_size: int = 0


@dataclass(frozen=True)
class Flat(Plain):
    """The projection of blobs, which are on the image already: all are drawn, in the order in which
    they stand, so there is nothing to sort."""

    sink: Sink

    differentiates = True

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        sink = self.sink
        return [
            SORT_PASSES[0],
            ComputePass(
                "fit order",
                "fits/image/order.comp",
                reads=("counts",),
                writes=("counts", "indirect", "order"),
                spec=command,
            ),
            ComputePass(
                "fit project",
                "fits/image/project.comp",
                reads=("blobs", "camera", "counts"),
                writes=("splats2d", "colors2d"),
            ),
            ComputePass(
                "fit sink",
                "fits/image/sink.comp",
                reads=("counts", "colors2d", "d_splats2d", *sink.reads),
                writes=("d_splats2d", *sink.writes),
                slots=sink.slots,
            ),
        ]

    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]:
        sizes = {"order": capacity, "digit_totals": RADIX}  # the latter for the sort of tiles
        return allocate_drawn(
            device,
            capacity,
            self.sink,
            {name: n * contract.itemsize(name) for name, n in sizes.items()},
        )

    def record_begin(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """counts.splats -> order, counts.visible, work sizes. Once for a number of blobs."""
        recorder.run(run["sizes"], threads=(1,))
        recorder.run(run["fit order"], indirect="splat_groups")

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        recorder.run(run["fit project"], indirect="splat_groups")

    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int
    ) -> None:
        recorder.run(run["fit sink"], indirect="splat_groups")


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
    spec = {
        "TILES_X": across,
        "TILES_Y": down,
        "LOCAL_SIZE": _threads(row, lanes, pixels),
        "LANES": lanes,
        "TILE_PIXELS": pixels,
    }
    slots = {"walk": row.walk, "share": "fits/image/share.glsl"}
    summed = {"THRESHOLD": max(1, 8 * lanes // 32)} if "THRESHOLD" in backward.spec else {}
    summing = {**dict(backward.slots), **slots, "atomics": atomics.slot}
    reads = ("counts", "tile_splats", "tile_reaches")
    drawn = (*reads, "target", "d_image", "frame", "d_splats2d")
    return [
        count_pass(),
        ComputePass(
            "draw",
            "tiled/forward.comp",
            reads,
            ("target",),
            spec,
            slots,
            full_subgroups=True,
            subgroup=lanes,
        ),
        ComputePass(
            "draw backward",
            "tiled/backward.comp",
            drawn,
            ("d_splats2d",),
            {**spec, **summed},
            summing,
            full_subgroups=True,
            subgroup=lanes,
        ),
    ]


def _threads(row: FitRaster, lanes: int, pixels: int) -> int:
    """Of a workgroup."""
    return max(WORKGROUP, lanes) if row.by_subgroup else pixels


def _grid(width: int, height: int, pixels: int) -> tuple[int, int]:
    """Tiles across and down; they are squares, or twice as wide as high."""
    bits = pixels.bit_length() - 1
    return -(-width // (1 << (bits + 1) // 2)), -(-height // (1 << bits // 2))


@dataclass(frozen=True)
class WalkRows:
    names: dict[str, str | int] = field(default_factory=dict)


class WalkRasterizer:
    """`sorted` and `balloted`, of `parameters` on a canvas of width x height px; otherwise as those
    of app/hardsplat/raster."""

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
        backward = resolve(
            device,
            "reduction",
            {name: TILE_BACKWARDS[name] for name in row.reductions},
            options.reduction,
            "--reduction",
        )
        atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "--atomics")
        tiles = int(np.prod(_grid(width, height, pixels)))
        self.rows = WalkRows(
            {
                "reduction": name_of(TILE_BACKWARDS, backward),
                "subgroup_size": lanes,
                "tile_pixels": pixels,
            }
        )
        self.threads = -(-tiles * pixels // _threads(row, lanes, pixels)) * _threads(
            row, lanes, pixels
        )
        self.projection = Flat(sink)
        passes = [
            *self.projection.passes(),
            *walk_passes(row, backward, atomics, width, height, lanes, pixels),
        ]
        self.pipelines = build_all(device, passes)
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
        """blobs, camera, counts -> target. There is no other picture than the image, and there are
        no pairs to be counted."""
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
        """A dispatch is counted in workgroups of the size that the shader has by default."""
        recorder.run(
            run, threads=(self.threads // int(run.owner.spec["LOCAL_SIZE"]) * run.local_size[0],)
        )

    def make_room(self, wanted: int | None = None) -> bool:
        """There are no pairs of tile and blob."""
        return False

    def destroy(self) -> None:
        for resource in self._own.values():
            resource.destroy()


def rasterizer_of(device: Device, wanted: str) -> str:
    """The row of FIT_RASTERS that is wanted, or for 'auto' the first that runs here. Raises
    UserError."""
    row = resolve(device, "rasterizer of blobs", FIT_RASTERS, wanted, "--rasterizer")
    return name_of(FIT_RASTERS, row)


# behind a projection that is a Flat
FlatRasterizer = WalkRasterizer | TiledRasterizer | HardwareRasterizer


def open_rasterizer(
    device: Device,
    parameters: BlobBuffers,
    width: int,
    height: int,
    options: FitOptions,
    sink: Sink,
) -> FlatRasterizer:
    """What `options` name. Raises UserError for what the device cannot run, OutOfMemory with
    nothing allocated."""
    name = rasterizer_of(device, options.rasterizer)
    row = FIT_RASTERS[name]
    reduction = row.reductions[0] if options.reduction == "auto" else options.reduction
    if reduction not in row.reductions:
        raise UserError(f"--reduction {reduction}: {name} has {', '.join(row.reductions)}")
    if row.backend == "walk":
        wanted = FitOptions(
            name,
            reduction,
            options.atomics,
            tile_pixels=options.tile_pixels,
            subgroup_size=options.subgroup_size,
        )
        return WalkRasterizer(device, parameters, width, height, wanted, sink)
    if row.backend == "tiled":
        return TiledRasterizer(
            device,
            parameters,
            width,
            height,
            TiledOptions(tile_backward=reduction, atomics=options.atomics),
            sink,
            Flat(sink),
        )
    return HardwareRasterizer(
        device,
        parameters,
        width,
        height,
        HardwareOptions(format=options.format, reduction=reduction, atomics=options.atomics),
        sink,
        Flat(sink),
    )
