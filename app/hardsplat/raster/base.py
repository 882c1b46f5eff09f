"""What every rasterizer offers, and what the projection around it needs.

Contract of a rasterizer, all through named buffers and images (shapes in app/hardsplat/contract.py):
  forward:  parameters, camera, frame, counts -> `target` (colour without background, premultiplied; alpha = final transmittance T)
  backward: not where the sink is None; `d_image` (dL/d colour), the forward's leftovers, which it uses up -> `d_splats2d` -> gradients of the parameters, handed to a sink
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Protocol, Self

import numpy as np

from hardsplat import contract
from hardsplat.camera import Camera
from hardsplat.errors import UserError
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, Image, allocate_all
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.sort import record_sort, sort_bytes, sort_passes
from hardsplat.variants.moments import MOMENT_FORMATS, MomentFormat
from hardsplat.variants.pictures import PICTURES


def camera_row(camera: Camera, photo: int = 0) -> np.ndarray:
    """The contract's Camera struct. photo: first pixel of its photograph in `photos`."""
    row = np.zeros((), contract.dtype("Camera"))
    row["world_to_camera"] = camera.w2c[:3]
    row["position"] = camera.position
    row["focal"] = camera.K[0, 0], camera.K[1, 1]
    row["centre"] = camera.K[0, 2], camera.K[1, 2]
    row["size"] = camera.width, camera.height
    row["photo"] = photo
    return row


def frame_row(sh_degree: int, background, near_plane: float) -> np.ndarray:
    """The contract's Frame struct outside training."""
    row = np.zeros((), contract.dtype("Frame"))
    row["sh_degree"], row["background"], row["near_plane"] = sh_degree, background, near_plane
    return row


class Rasterizer(Protocol):
    """With `stochastic` in its options and a sink, record_backward is missing, and instead there are record_pair, record_gather and record_estimate."""

    resources: Mapping[str, Buffer | Image]
    room: int  # pairs of tile and splat that fit; a frame that asks for more (counts.pairs_wanted) is drawn without the farthest

    def record_forward(self, recorder: Recorder, picture: str = "image") -> None: ...  # picture: a row of app/hardsplat/variants/pictures.py
    def record_backward(self, recorder: Recorder) -> None: ...
    def record_pair(self, recorder: Recorder, pair: int) -> None: ...  # parameters -> target, target_minus; the first pair sorts
    def record_gather(self, recorder: Recorder, pair: int) -> None: ...  # loss_differences -> splat_differences
    def record_estimate(self, recorder: Recorder) -> None: ...  # of all pairs -> gradients of the parameters, handed to the sink
    def make_room(self, wanted: int | None = None) -> bool: ...  # for the pairs of the last frame; True: record anew, with its new `resources`
    def destroy(self) -> None: ...


class Options:
    """What a rasterizer can be told: a dataclass of settings."""

    @classmethod
    def of(cls, config) -> Self:
        """From settings that have fields of these names. `stochastic` is made of those that it has, where they ask for it."""
        found = {f.name: getattr(config, f.name) for f in fields(cls) if hasattr(config, f.name)}
        if getattr(config, "gradient", "analytic") == "stochastic" and "stochastic" in cls.__dataclass_fields__:
            found["stochastic"] = Stochastic.of(config)
        return cls(**found)


@dataclass(frozen=True)
class Stochastic(Options):
    """Training by stochastic gradients, see app/hardsplat/raster/stochastic.py. Perturbations: of the parameters, but for means a share of the splat's shorter half axis on screen."""

    gather: str = "auto"
    gradient_pairs: int = 1
    gradient_hold: int = 1
    means_perturbation: float = 0.1
    quats_perturbation: float = 0.02
    scales_perturbation: float = 0.05
    opacities_perturbation: float = 0.1
    sh0_perturbation: float = 0.1
    shN_perturbation: float = 0.05


def runnable(device: Device, registry: dict) -> list[str]:
    return [name for name, row in registry.items() if not device.capabilities.missing(row.needs)]


def resolve(device: Device, kind: str, registry: dict, wanted: str, flag: str):
    """The row of a registry that was asked for, or for 'auto' the first that runs here; a UserError says what is missing."""
    running = runnable(device, registry)
    if wanted == "auto":
        if not running:
            lacking = "; ".join(f"{name}: {', '.join(device.capabilities.missing(row.needs))}" for name, row in registry.items())
            raise UserError(f"{device.name} can run no {kind} ({lacking}); see hardsplat doctor")
        return registry[running[0]]
    if wanted not in registry:
        raise UserError(f"{flag} {wanted}: there is no such {kind}; choose from {', '.join(registry)}")
    if wanted not in running:
        missing = ", ".join(device.capabilities.missing(registry[wanted].needs))
        instead = f"use {flag} {running[0]}" if running else "no other runs here either"
        raise UserError(f"{flag} {wanted}: {device.name} lacks {missing}; {instead}")
    return registry[wanted]


@dataclass(frozen=True)
class Sink:
    """Where gradients of parameters go: the slot files of project/sink.comp and the rows they touch.

    grows: the densification statistics are wanted. all_planes: SH planes above the degree in use are handed over too. visible_only: rows
    of splats that were not visible are not.
    """

    slots: Mapping[str, str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    grows: bool = True
    all_planes: bool = False
    visible_only: bool = False


_STEPPED = (*contract.PARAMETERS, *contract.MOMENTS)


def resolve_moments(device: Device, wanted: str) -> MomentFormat:
    """The row that was asked for. Raises UserError where the device lacks what it needs."""
    return resolve(device, "storage of moments", MOMENT_FORMATS, wanted, "--moments")


def adam(moments: str = "float32", visible_only: bool = False) -> str:
    """The name of the sink that takes a step of Adam. moments: how they are stored, a row of app/hardsplat/variants/moments.py."""
    return ("visible " if visible_only else "") + "adam" + ("" if moments == "float32" else f" in {moments}")


SINKS = {"store": Sink({"sink": "optim/store.glsl"}, (), contract.PARAMETER_GRADIENTS, grows=False, all_planes=True)}
for _name, _row in MOMENT_FORMATS.items():
    _adam = Sink({"sink": "optim/adam.glsl", "moments": _row.slot}, ("hyper", *_STEPPED), _STEPPED)
    SINKS |= {adam(_name): _adam, adam(_name, visible_only=True): replace(_adam, visible_only=True)}
_KEPT = ("seen", "d_geometry")  # what the forward projection leaves the backward one


def allocate_drawn(device: Device, capacity: int, sink: str | None, others: Mapping[str, int]) -> dict[str, Buffer]:
    """What every rasterizer has for its camera, and between the projection of up to `capacity` splats and its draws; with a sink d_splats2d, which is zero.

    others: bytes of what else there shall be, by name. All of it, or with OutOfMemory nothing."""
    sizes = {"camera": 1, "frame": 1, "splats2d": capacity}
    if sink:
        sizes["d_splats2d"] = contract.CONSTANTS["GRADIENT_STRIDE"][0] * capacity
    buffers = allocate_all(device, {name: n * contract.itemsize(name) for name, n in sizes.items()} | others)
    if sink:
        buffers["d_splats2d"].fill(0)  # project/backward.comp and fit/sink.comp leave it clean after use
    return buffers


def allocate_projected(device: Device, capacity: int, sink: str | None, others: Mapping[str, int] = {}) -> dict[str, Buffer]:
    """The same, with a sink what the passes of a projection of 3D splats share besides."""
    stride = contract.plane_stride(capacity)
    sizes = {"seen": capacity, "d_geometry": contract.CONSTANTS["GEOMETRY"][0] * stride, "d_colors": 2 * stride} if sink else {}
    return allocate_drawn(device, capacity, sink, {name: n * contract.itemsize(name) for name, n in sizes.items()} | others)


class Projection(Protocol):
    """What stands around the draws of a rasterizer: parameters -> splats2d, and their order of blending; d_splats2d -> gradients -> a sink, if it has one."""

    sink: str | None

    def passes(self, command: Mapping[str, int], picture: str = "image") -> list[ComputePass]: ...  # command: the draw that the order is for, of app/hardsplat/variants/shapes.py
    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]: ...  # what it needs, and every rasterizer: see allocate_drawn
    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None: ...
    def record_backward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None: ...


@dataclass(frozen=True)
class Perspective:
    """Of 3D splats: EWA projection, order by depth. sink: None for no backward pass."""

    sh_planes: int
    sink: str | None
    antialiased: bool = False

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        backward = project_backward(self.sh_planes, self.sink, self.antialiased) if self.sink else []
        return [*sort_passes(command), project_forward(self.sh_planes, self.antialiased, picture, kept=self.sink is not None), *backward]

    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]:
        return allocate_projected(device, capacity, self.sink, sort_bytes(capacity))

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        recorder.run(run["sizes"], threads=(1,))
        recorder.run(run["project"], indirect="splat_groups")
        record_sort(recorder, run)

    def record_backward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        record_project_backward(recorder, run)


def project_forward(sh_planes: int, antialiased: bool, picture: str = "image", kept: bool = True) -> ComputePass:
    """kept: a backward pass may follow, which is of the image alone."""
    kept, depth = kept and picture == "image", PICTURES[picture].depth
    return ComputePass(
        name="project",
        shader="project/forward.comp",
        reads=(*contract.PARAMETERS, "camera", "frame", "counts"),
        writes=("splats2d", "keys", *(_KEPT if kept else ())),
        spec={"SH_PLANES": sh_planes, "ANTIALIASED": antialiased, **({"DEPTH": True} if depth else {})},
        slots={"kept": f"project/{'kept' if kept else 'nothing_kept'}.glsl"},
    )


def project_backward(sh_planes: int, sink: str, antialiased: bool) -> list[ComputePass]:
    """Of the visible splats, then of all parameters; in this order, see record_project_backward."""
    row = SINKS[sink]
    stats = ("grow_stats",) if row.grows else ()
    return [
        ComputePass(
            name="project backward",
            shader="project/backward.comp",
            reads=(*contract.PARAMETERS[:-1], "camera", "frame", "counts", "d_splats2d", "seen", "d_geometry", *stats),
            writes=("indirect", "d_splats2d", "d_geometry", "d_colors", *stats),
            spec={"SH_PLANES": sh_planes, "ALL_PLANES": row.all_planes, "ANTIALIASED": antialiased},
            slots={"stats": f"optim/{'grow' if row.grows else 'no'}_stats.glsl"},
        ),
        ComputePass(
            name="project backward sink",
            shader="project/sink.comp",
            reads=("frame", "counts", "seen", "d_geometry", "d_colors", *row.reads),
            writes=row.writes,
            spec={"VISIBLE_ONLY": row.visible_only},
            slots={**row.slots, "gradient": "project/analytic.glsl"},
        ),
    ]


def record_project_backward(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """d_splats2d, splats2d, parameters -> the sink."""
    recorder.run(run["project backward"], indirect="splat_groups")
    recorder.run(run["project backward sink"], indirect="sink")
