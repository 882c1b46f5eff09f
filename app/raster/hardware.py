"""The paper: splats as quads through the graphics pipeline, gradients reduced in the fragment shader.

Yuan & He, "Efficient Differentiable Hardware Rasterization for 3D Gaussian Splatting", 2025 (arXiv 2505.18764).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from app import contract
from app.errors import UserError
from app.gpu.context import Device
from app.gpu.memory import Buffer, Image
from app.gpu.passes import ComputePass, DrawPass, Pipeline, build_all
from app.gpu.recorder import Recorder
from app.raster.base import project_backward, project_forward
from app.raster.parameters import Parameters
from app.raster.sort import SORT_PASSES, allocate_sort, record_sort
from app.variants.atomics import ATOMICS
from app.variants.blending import BLENDINGS
from app.variants.formats import FORMATS
from app.variants.ordering import ORDERINGS
from app.variants.quads import QUADS
from app.variants.reductions import REDUCTIONS


@dataclass(frozen=True)
class HardwareOptions:
    """Rows of the registries in app/variants; 'auto' takes the first row that the device can run."""

    format: str = "float16"
    state_format: str = "same"
    blending: str = "fixed"
    reduction: str = "hybrid"
    hybrid_threshold: int = 16  # contributing fragments of 32 that make a whole-subgroup reduction worth it
    ordering: str = "auto"
    atomics: str = "auto"

    @classmethod
    def of(cls, config) -> HardwareOptions:
        """From settings that have fields of these names."""
        return cls(**{f.name: getattr(config, f.name) for f in fields(cls) if hasattr(config, f.name)})


def resolve(device: Device, kind: str, registry: dict, wanted: str, flag: str):
    """The row of a registry that was asked for, or for 'auto' the first that runs here; a UserError says what is missing."""
    runnable = [name for name, row in registry.items() if not device.capabilities.missing(row.needs)]
    if wanted == "auto":
        if not runnable:
            lacking = "; ".join(f"{name}: {', '.join(device.capabilities.missing(row.needs))}" for name, row in registry.items())
            raise UserError(f"{device.name} can run no {kind} ({lacking}); see hardsplat doctor")
        return registry[runnable[0]]
    if wanted not in registry:
        raise UserError(f"{flag} {wanted}: there is no such {kind}; choose from {', '.join(registry)}")
    if wanted not in runnable:
        missing = ", ".join(device.capabilities.missing(registry[wanted].needs))
        instead = f"use {flag} {runnable[0]}" if runnable else "no other runs here either"
        raise UserError(f"{flag} {wanted}: {device.name} lacks {missing}; {instead}")
    return registry[wanted]


class HardwareRasterizer:
    """Draws `parameters` on a canvas of width x height px. Resources: its own and those of `parameters`, by contract name."""

    def __init__(self, device: Device, parameters: Parameters, width: int, height: int, options: HardwareOptions, sink: str):
        self.device, self.width, self.height = device, width, height
        self.format = resolve(device, "target format", FORMATS, options.format, "--format")
        same = options.state_format == "same"
        self.state_format = self.format if same else resolve(device, "state format", FORMATS, options.state_format, "--state-format")
        self.blending = resolve(device, "blending", BLENDINGS, options.blending, "--blending")
        self.reduction = resolve(device, "reduction", REDUCTIONS, options.reduction, "--reduction")
        self.ordering = resolve(device, "ordering of fragments", ORDERINGS, options.ordering, "--ordering")
        self.atomics = resolve(device, "float atomics", ATOMICS, options.atomics, "--atomics")
        self.quads = resolve(device, "quad control", QUADS, "auto", "")
        self.hybrid_threshold = max(1, options.hybrid_threshold * device.subgroup_size // 32)
        self.sh_planes, self.sink = parameters.sh_planes, sink
        capacity = parameters.capacity
        own = {n: Buffer(device, contract.itemsize(n), n) for n in ("camera", "frame")}
        own["splats2d"] = Buffer(device, capacity * contract.itemsize("splats2d"), "splats2d")
        own["d_splats2d"] = Buffer(device, capacity * 9 * contract.itemsize("d_splats2d"), "d_splats2d")
        own["d_splats2d"].fill(0)  # project/backward.comp leaves it clean after use
        own |= allocate_sort(device, capacity)
        own["target"] = Image(device, width, height, self.format.vk, self.format.texel, "target")
        own["state"] = Image(device, width, height, self.state_format.vk, self.state_format.texel, "state")
        own["d_image"] = Image(device, width, height, FORMATS["float32"].vk, np.float32, "d_image")
        self._own = own
        self.resources = {**parameters.all, **own}
        self.pipelines: dict[str, Pipeline] = build_all(device, self.passes())

    def passes(self) -> list[ComputePass | DrawPass]:
        canvas = {"CANVAS_WIDTH": self.width, "CANVAS_HEIGHT": self.height}
        return [
            *SORT_PASSES,
            project_forward(self.sh_planes),
            *self._forward_passes(canvas),
            ComputePass("begin backward", "draw/begin_backward.comp", reads=("target", "frame"), writes=("state",)),
            self._backward_pass(canvas),
            project_backward(self.sh_planes, self.sink),
        ]

    def _forward_passes(self, canvas: dict) -> list[ComputePass | DrawPass]:
        common = dict(name="draw", vertex="draw/splat.vert", attachment="target", format=self.format.vk, clear=(0.0, 0.0, 0.0, 1.0))
        spec = {"BOUNDED": self.format.bounded, **canvas}
        pulled = ("counts", "splats2d", "order")
        if not self.blending.ordered:
            back_to_front = {"BACK_TO_FRONT": True, **spec}
            return [DrawPass(**common, fragment=self.blending.fragment, reads=(*pulled, "target"), writes=("target",), blend=True, spec=back_to_front)]
        ordered = dict(slots={"order": self.ordering.slot}, macros=self._macros(self.format), bind={"state": "target"})
        draw = dict(common, fragment=self.blending.fragment, reads=(*pulled, "state"), writes=("state",), spec=spec, **ordered)
        if self.ordering.attachment:
            return [DrawPass(**draw, in_order=True)]
        begin = ComputePass("begin forward", "draw/begin_forward.comp", writes=("state",), bind={"state": "target"})
        return [begin, DrawPass(**(draw | {"attachment": None, "clear": None}))]

    def _backward_pass(self, canvas: dict) -> DrawPass:
        spec = {"BOUNDED": self.format.bounded, **canvas}
        slots = {"order": self.ordering.slot, "reduce": self.reduction.slot, "atomics": self.atomics.slot}
        if self.reduction.quads:
            slots["quads"] = self.quads.slot
        if "THRESHOLD" in self.reduction.spec:
            spec["THRESHOLD"] = self.hybrid_threshold
        return DrawPass(
            name="draw backward",
            vertex="draw/splat.vert",
            fragment="draw/backward.frag",
            reads=("counts", "splats2d", "order", "d_image", "state", "d_splats2d"),
            writes=("state", "d_splats2d"),
            attachment="state" if self.ordering.attachment else None,
            format=self.state_format.vk,
            in_order=self.ordering.attachment,
            spec=spec,
            slots=slots,
            macros=self._macros(self.state_format),
        )

    def _macros(self, format) -> dict[str, str]:
        """A storage image names its format in the shader; an attachment does not."""
        return {} if self.ordering.attachment else {"STATE_FORMAT": format.qualifier}

    def record_forward(self, recorder: Recorder) -> None:
        run = self.pipelines
        recorder.run(run["sizes"], threads=(1,))
        recorder.run(run["project"], indirect="splat_groups")
        record_sort(recorder, run)
        if "begin forward" in run:
            recorder.run(run["begin forward"], threads=(self.width, self.height))
        recorder.run(run["draw"], indirect="draw", extent=(self.width, self.height))

    def record_backward(self, recorder: Recorder) -> None:
        run = self.pipelines
        recorder.run(run["begin backward"], threads=(self.width, self.height))
        recorder.run(run["draw backward"], indirect="draw", extent=(self.width, self.height))
        recorder.run(run["project backward"], indirect="splat_groups")

    def destroy(self) -> None:
        for resource in self._own.values():
            resource.destroy()
