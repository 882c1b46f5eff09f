"""The paper: splats as quads through the graphics pipeline, gradients reduced in the fragment shader.

Yuan & He, "Efficient Differentiable Hardware Rasterization for 3D Gaussian Splatting", 2025 (arXiv 2505.18764).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from hardsplat.errors import OutOfMemory, UserError
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, Image
from hardsplat.gpu.passes import Pipeline, build_all
from hardsplat.gpu.recorder import Recorder
from hardsplat.gpu.shader import Source
from hardsplat.raster import stochastic
from hardsplat.raster.choose import choose
from hardsplat.raster.draws import all_passes, blocks_of, passes
from hardsplat.raster.options import Options, Stochastic
from hardsplat.raster.parameters import Parameters
from hardsplat.raster.projection import Projection
from hardsplat.raster.resolve import name_of, resolve, runnable
from hardsplat.raster.sinks import STORE, Sink
from hardsplat.variants.atomics import ATOMICS, Atomics
from hardsplat.variants.blending import BLENDINGS, Blending
from hardsplat.variants.blocks import BLOCKS, Block
from hardsplat.variants.formats import FORMATS, Format
from hardsplat.variants.gathers import GATHERS, Gather
from hardsplat.variants.ordering import ORDERINGS, Ordering
from hardsplat.variants.quads import QUADS, Quads
from hardsplat.variants.reductions import REDUCTIONS, Reduction
from hardsplat.variants.shapes import SHAPES, Shape

# What 'auto' times, in this order: rows that draw the same but for rounding. Formats and blending are left out, which are a choice of accuracy.
TIMED = {"shape": SHAPES, "block": BLOCKS, "reduction": REDUCTIONS, "atomics": ATOMICS, "ordering": ORDERINGS}


@dataclass(frozen=True)
class HardwareOptions(Options):
    """Rows of the registries in app/hardsplat/variants; 'auto' takes what app/hardsplat/raster/choose.py found the fastest."""

    format: str = "float16"
    state_format: str = "same"
    blending: str = "auto"
    reduction: str = "auto"
    hybrid_threshold: int = 16  # contributing fragments of 32 that make a whole-subgroup reduction worth it
    ordering: str = "auto"
    atomics: str = "auto"
    block: str = "auto"
    shape: str = "auto"
    segments: int = 1  # depth segments, each drawn to a canvas of its own
    antialiased: bool = False  # opacities times the compensation of the dilation
    stochastic: Stochastic | None = None  # gradients from perturbed images


@dataclass(frozen=True)
class Rows:
    """The registry rows that a rasterizer is made of, and their names there."""

    format: Format
    state_format: Format
    blending: Blending
    reduction: Reduction
    ordering: Ordering
    atomics: Atomics
    quads: Quads
    block: Block
    shape: Shape = SHAPES["quad"]
    gather: Gather | None = None  # of stochastic gradients
    names: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def resolve(cls, device: Device, options: HardwareOptions, backward: bool = True) -> Rows:
        """The rows of these options; of those left to 'auto', the fastest. Raises UserError for what the device cannot run.

        backward: gradients are wanted too; images alone need no ordering, if the blending unit makes them.
        """
        if options.stochastic:
            return cls._stochastic(device, options)
        if not backward and not runnable(device, ORDERINGS):
            return cls.first(device, options, backward)
        names = cls.first(device, options).names
        knobs = {knob: runnable(device, rows) for knob, rows in TIMED.items() if getattr(options, knob) == "auto"}
        return cls.first(device, choose(device, "hardware", options, names, knobs, HardwareRasterizer, lambda o: sources(device, o)))

    @classmethod
    def first(cls, device: Device, options: HardwareOptions, backward: bool = True) -> Rows:
        """The rows of these options; of those left to 'auto', the first that runs."""
        names, orderings = {}, ORDERINGS
        unordered = not backward and not runnable(device, ORDERINGS)

        def row(kind: str, title: str, registry: dict, wanted: str):
            found = resolve(device, title, registry, wanted, "--" + kind.replace("_", "-"))
            names[kind] = name_of(registry, found)
            return found

        format = row("format", "target format", FORMATS, options.format)
        # what the blending unit needs depends on the format
        blendings = {name: each if each.ordered else replace(each, needs=format.blend_needs) for name, each in BLENDINGS.items()}
        if unordered:
            blendings = {name: each for name, each in blendings.items() if not each.ordered}
            orderings = {name: replace(each, needs=()) for name, each in ORDERINGS.items()}
        ordering = row("ordering", "ordering of fragments", orderings, options.ordering)
        # a draw of blocks keeps its state in a buffer, which not every ordering can guard
        blocks = {name: each if each.pixels == 1 else replace(each, needs=ordering.section_needs) for name, each in BLOCKS.items()}
        return cls(
            format,
            row("state_format", "state format", FORMATS, options.format if options.state_format == "same" else options.state_format),
            row("blending", "blending", blendings, options.blending),
            row("reduction", "reduction", REDUCTIONS, options.reduction),
            ordering,
            row("atomics", "float atomics", ATOMICS, options.atomics),
            row("quads", "quad control", QUADS, "auto"),
            row("block", "block of pixels", blocks, options.block),
            row("shape", "shape of splats", SHAPES, options.shape),
            names=names,
        )

    @classmethod
    def _stochastic(cls, device: Device, options: HardwareOptions) -> Rows:
        """Those of a forward pass alone, and of a gather, which takes blocks of pixels in any order."""
        if np.dtype(FORMATS[options.format].texel).itemsize == 1:
            raise UserError(f"--format {options.format}: its steps drown the differences of stochastic gradients; use --format float16 or float32")
        gather = resolve(device, "gather of differences", GATHERS, options.stochastic.gather, "--gather")
        rows = cls.resolve(device, replace(options, stochastic=None), backward=False)
        reduction = rows.reduction if rows.reduction.any_number else REDUCTIONS["hybrid"]
        unused = ("state_format", "block", *(() if rows.blending.ordered else ("ordering",)), *(() if gather.draws else ("reduction", "atomics")))
        names = {name: row for name, row in rows.names.items() if name not in unused} | {"gather": name_of(GATHERS, gather)}
        return replace(rows, gather=gather, reduction=reduction, block=BLOCKS["2x2"], names=names)


def first(device: Device, options: HardwareOptions) -> HardwareOptions:
    """These options with the first rows that run here in the place of those that would be timed. Raises UserError for what the device cannot run."""
    names = Rows.first(device, options, backward=options.stochastic is None).names
    return replace(options, **{knob: names[knob] for knob in TIMED})


def sources(device: Device, options: HardwareOptions) -> set[Source]:
    """The shaders of a rasterizer with these options, which name every row that matters."""
    return {source for p in passes(Rows.first(device, options), 1, 1, 1, STORE, segments=options.segments) for source in p.sources()}


def segments_of(device: Device, rows: Rows, wanted: int, height: int) -> int:
    """How many depth segments are drawn: those wanted, as far as their canvases fit below one another; one where the shader blends, front to back."""
    return 1 if rows.blending.ordered else max(1, min(wanted, device.max_image // height))


class HardwareRasterizer:
    """Draws `parameters` on a canvas of width x height px. Resources: its own and those of `parameters`, by contract name.

    sink: None for no backward pass. projection: another than of 3D splats, with a sink of its own. Raises UserError for options that the device cannot run,
    OutOfMemory with nothing allocated.
    """

    room = 0  # it has no pairs of tile and splat

    def __init__(self, device: Device, parameters: Parameters, width: int, height: int, options: HardwareOptions, sink: Sink | None, projection: Projection | None = None):
        self.device, self.width, self.height = device, width, height
        self.rows = rows = Rows.resolve(device, options, backward=sink is not None)
        threshold = max(1, options.hybrid_threshold * device.subgroup_size // 32)
        self.segments = segments_of(device, rows, options.segments, height)
        rows.names["segments"] = self.segments
        self.projection = projection or stochastic.projection((parameters.sh_degree + 1) ** 2, sink, options.antialiased, options.stochastic)
        self._passes = self.projection, rows, width, height, threshold, self.segments
        self.pipelines = build_all(device, all_passes(*self._passes))
        self._own: dict[str, Buffer | Image] = {}
        try:
            self._allocate(parameters.capacity)
        except OutOfMemory:
            self.destroy()
            raise
        self._capacity = parameters.capacity
        if options.stochastic and sink:
            parameters.set_perturbations(dict(options.stochastic.perturbations))
        self.resources = {**parameters.all, **self._own}

    def _allocate(self, capacity: int) -> None:
        device, rows, size, own = self.device, self.rows, (self.width, self.height), self._own
        own |= self.projection.allocate(device, capacity)
        for image in self.projection.images:
            name = f"target{image}".replace(" ", "_")
            own[name] = Image(device, *size, rows.format.vk, rows.format.texel, name)
        tall = (self.width, self.height * self.segments)
        if self.segments > 1:
            own["layers"] = Image(device, *tall, rows.format.vk, rows.format.texel, "layers")
        if not self.projection.differentiates:
            return
        if rows.block.pixels == 1:
            own["state"] = Image(device, *tall, rows.state_format.vk, rows.state_format.texel, "state")
        else:
            across, down = blocks_of(rows.block, *size)
            own["blocks"] = Buffer(device, self.segments * across * down * rows.block.pixels * rows.state_format.packed, "blocks")
        if self.projection.sink.stores:  # in training it is the loss's
            own["d_image"] = Image(device, *size, FORMATS["float32"].vk, np.float32, "d_image")

    def record_forward(self, recorder: Recorder, picture: str = "image") -> None:
        """parameters, camera, frame, counts -> target."""
        run = build_all(self.device, all_passes(*self._passes, picture))
        self.projection.record_forward(recorder, run)
        self._record_draw(recorder, run)

    def _record_draw(self, recorder: Recorder, run: dict[str, Pipeline], image: str = "") -> None:
        """order -> the target of an image of the projection."""
        if "begin forward" in run:
            recorder.run(run[f"begin forward{image}"], threads=(self.width, self.height))
        recorder.run(run[f"draw{image}"], indirect="draw", extent=(self.width, self.height * self.segments))
        if "resolve" in run:
            recorder.run(run[f"resolve{image}"], threads=(self.width, self.height))

    def record_images(self, recorder: Recorder) -> None:
        """Projected splats -> the targets of all images of the projection."""
        for image in self.projection.images:
            self._record_draw(recorder, self.pipelines, image)

    def record_step(self, recorder: Recorder, compare: Callable[[Recorder], None]) -> None:
        """parameters, camera, frame, counts -> gradients -> the sink. compare: records the loss between the images and what it makes of them."""
        self.projection.record_step(recorder, self.pipelines, self, compare, self._capacity)

    def record_gather(self, recorder: Recorder, pair: int) -> None:
        """loss_differences -> splat_differences."""
        if self.rows.gather.draws:
            recorder.run(self.pipelines[f"gather {pair}"], indirect="draw", extent=blocks_of(self.rows.block, self.width, self.height))
        else:
            self.projection.record_gather(recorder, self.pipelines, pair, self.height)

    def record_backward(self, recorder: Recorder) -> None:
        """d_image, target, order -> d_splats2d -> the sink."""
        run = self.pipelines
        across, down = blocks_of(self.rows.block, self.width, self.height)
        recorder.run(run["begin backward"], threads=(across, down))
        recorder.run(run["draw backward"], indirect="draw", extent=(across, down * self.segments))
        self.projection.record_backward(recorder, run, self._capacity)

    def make_room(self, wanted: int | None = None) -> bool:
        """Whatever is drawn fits."""
        return False

    def destroy(self) -> None:
        for resource in self._own.values():
            resource.destroy()
