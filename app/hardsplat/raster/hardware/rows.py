"""Options of the hardware rasterizer, and the registry rows that they name on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.raster.core.resolve import V, ahead, resolve, threshold_of
from hardsplat.settings.rasterizers import Options
from hardsplat.tables.formats import FORMATS, TargetFormat
from hardsplat.tables.gradients import ATOMICS, REDUCTIONS, Atomics, Reduction
from hardsplat.tables.hardware import (
    BLENDINGS,
    BLOCKS,
    ORDERINGS,
    QUADS,
    SHAPES,
    Blending,
    Block,
    Ordering,
    OutlineShape,
    Quads,
)

SEGMENTS = (1, 4, 16)  # numbers of depth segments that `auto` times
THRESHOLD = 16  # of hybrid_threshold, before others are timed


@dataclass(frozen=True)
class HardwareOptions(Options):
    """Rows of the registries in app/hardsplat/tables; 'auto' takes what
    app/hardsplat/raster/core/choose.py found the fastest."""

    format: str = "float16"
    state_format: str = "same"
    blending: str = "auto"
    reduction: str = "auto"
    # contributing fragments of 32 from which a whole subgroup is summed; 0: the fastest number
    hybrid_threshold: int = 0
    ordering: str = "auto"
    block: str = "auto"
    shape: str = "auto"
    segments: int = 0  # depth segments, each drawn to a canvas of its own; 0: the fastest
    # in front of a segment, below which its backward draw leaves a block out
    least_transmittance: float = 1e-4

    @property
    def blending_row(self) -> Blending | None:
        """The blending that they name; None for 'auto'."""
        return BLENDINGS.get(self.blending)


@dataclass(frozen=True)
class Rows:
    """The registry rows that a rasterizer is made of, and their names there."""

    format: TargetFormat
    state_format: TargetFormat
    blending: Blending
    reduction: Reduction
    ordering: Ordering
    atomics: Atomics
    quads: Quads
    block: Block
    shape: OutlineShape = SHAPES["quad"]
    segments: int = 1
    least_transmittance: float = 1e-4
    threshold: int = 1  # contributing lanes of a subgroup from which it is summed whole
    names: dict[str, str | int] = field(default_factory=dict, compare=False)

    def layered(self, segments: int) -> bool:
        """Whether the image is put together from canvases of the blending unit, which is so of
        several depth segments."""
        return not self.blending.ordered and (segments > 1 or bool(self.format.resolved))

    def layers_bound(self, segments: int) -> dict[str, str]:
        """What the passes that read these canvases bind in their place."""
        return {} if self.layered(segments) else {"layers": "target"}

    def layers(self, segments: int) -> dict[str, int]:
        """Constants of these passes."""
        shifted = {"SHIFTED": self.format.shifted} if self.layered(segments) else {}
        return {"SEGMENTS": segments, **shifted}

    @property
    def target(self) -> TargetFormat:
        """The format of finished images."""
        put_together = self.blending.listed or not self.blending.ordered
        resolved = self.format.resolved if put_together else ""
        return FORMATS[resolved] if resolved else self.format

    @classmethod
    def first(cls, device: Device, options: HardwareOptions, by_unit: bool = False) -> Rows:
        """The rows of these options; of those that are 'auto', the first that runs. With an
        ordering by lists, images come of lists too. The blending unit makes them where depth
        segments are named; by_unit: wherever it can."""
        names: dict[str, str | int] = {"segments": options.segments or SEGMENTS[0]}

        def row(kind: str, title: str, registry: Mapping[str, V], name: str) -> V:
            names[kind] = found = resolve(device, title, registry, name, kind)
            return registry[found]

        format = row("format", "target format", FORMATS, options.format)
        named = options.blending_row
        orderings = {n: o for n, o in ORDERINGS.items() if named is None or named.goes_with(o)}
        if options.ordering in ORDERINGS and options.ordering not in orderings:
            raise UserError(
                f"--blending {options.blending} goes with --ordering "
                f"{' or '.join(orderings)}, not with {options.ordering}"
            )
        ordering = row("ordering", "ordering of fragments", orderings, options.ordering)
        # what the blending unit needs depends on the format
        blendings = {
            name: each if each.ordered else replace(each, needs=format.blend_needs)
            for name, each in BLENDINGS.items()
            if each.goes_with(ordering)
        }
        if options.blending == "auto":
            by_lists = [(n, b) for n, b in blendings.items() if b.listed and options.segments <= 1]
            others = [(name, each) for name, each in blendings.items() if not each.listed]
            blendings = dict([*others, *by_lists] if by_unit else [*by_lists, *others])
        # a draw of blocks keeps its state in a buffer, which not every ordering can guard
        blocks = {
            name: each if each.pixels == 1 else replace(each, needs=ordering.section_needs)
            for name, each in BLOCKS.items()
        }
        blending = row("blending", "blending", blendings, options.blending)
        state = options.format if options.state_format == "same" else options.state_format
        state_format = row("state_format", "state format", FORMATS, state)
        sums = ahead(REDUCTIONS, blending.reduction)
        reduction = row("reduction", "reduction", sums, options.reduction)
        lanes = options.hybrid_threshold or THRESHOLD
        if reduction.threshold:
            names["hybrid_threshold"] = lanes
        return cls(
            format,
            state_format,
            blending,
            reduction,
            ordering,
            row("atomics", "float atomics", ATOMICS, options.atomics),
            row("quads", "quad control", QUADS, "auto"),
            row("block", "block of pixels", ahead(blocks, blending.block), options.block),
            row("shape", "shape of splats", SHAPES, options.shape),
            options.segments or SEGMENTS[0],
            options.least_transmittance,
            threshold_of(device, lanes),
            names,
        )


def stochastic_rows(options: HardwareOptions, forward: Rows) -> Rows:
    """Returns those of a forward pass alone, under the names of the rows that matter."""
    if np.dtype(FORMATS[options.format].texel).itemsize == 1:
        raise UserError(
            f"--gradient stochastic: the steps of --format {options.format} drown its "
            "differences; use --format float16 or float32"
        )
    unused = {"state_format", "block", "reduction", "hybrid_threshold", "atomics"}
    if not forward.blending.ordered:
        unused.add("ordering")
    names = {name: row for name, row in forward.names.items() if name not in unused}
    return replace(forward, names=names | {"gradient": "stochastic"})
