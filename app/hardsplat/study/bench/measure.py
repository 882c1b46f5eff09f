"""Measurements of a variant: GPU milliseconds by stage, fragments, memory, gradient error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.contract.footprint import by_purpose
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import complete
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned, allocate_all
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import BACKENDS, rasterizer_named
from hardsplat.raster.core.frame import camera_data, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.sinks import adam, moments_of, plane_groups
from hardsplat.raster.renderer import Renderer
from hardsplat.report.stages import STAGES, stage_of
from hardsplat.settings.train import TrainConfig
from hardsplat.step.begin import adam_settings
from hardsplat.step.loss import loss_terms, term_sums_bytes
from hardsplat.study.tables import GRADIENTS
from hardsplat.tables import quantities
from hardsplat.tables.formats import FORMATS

BACKGROUND, NEAR = (1.0, 1.0, 1.0), 0.2  # as in the paper's harness
# Seconds of drawing before anything is timed: a GPU lowers its clocks while the host prepares a
# model or a view, and raises them only after a while of work. Likely why an H200 timed 7.9 ms for a
# model that takes 1.8. A CPU needs none.
WARM_SECONDS = 0.3
# seconds and frames of a submission: in a gap between two of them the clocks may fall again
_WARM_BATCH, _MOST_FRAMES = 0.1, 64


@dataclass
class Measurement:
    """One variant.

    - options: registry rows as resolved on this device.
    - stages, forward, backward, total: milliseconds.
    - visible: splats, mean over views. fragments: invocations of each draw, mean over views.
    - memory: bytes by purpose (footprint.PURPOSES).
    - errors: relative L2 of each gradient, see Bench.errors.
    """

    options: dict
    stages: dict[str, float]
    forward: float
    backward: float
    total: float
    visible: float
    fragments: dict[str, float]
    memory: dict[str, int]
    errors: dict[str, float] = field(default_factory=dict)


@dataclass
class Bench:
    """A model and some views of its scene on one device. repeats: timed draws of every view."""

    device: Device
    gaussians: Gaussians
    cameras: list[Camera]
    repeats: int

    def __post_init__(self):
        self.width = max(camera.width for camera in self.cameras)
        self.height = max(camera.height for camera in self.cameras)
        self._reference: tuple | None = None  # (what it is of, gradients)

    def measure(self, rasterizer: str, options: dict) -> Measurement:
        """options: of the rasterizer, and `moments`. Raises UserError for what the device cannot
        run, OutOfMemory; nothing stays allocated."""
        options = {"moments": "auto", **options}
        device, width, height, own = self.device, self.width, self.height, Owned()
        moments = moments_of(device, options.pop("moments"))
        n, degree = len(self.gaussians), self.gaussians.sh_degree
        backend = BACKENDS[rasterizer]
        made: Any = backend.options(**options)
        sink = adam(moments)
        try:
            kept = ("grow_stats",)
            parameters = own.add(Parameters(device, n, degree, moments, "written", statistics=kept))
            parameters.upload(self.gaussians)
            parameters.forget()
            raster = own.add(backend(device, parameters, width, height, made, sink=sink))
            resources = {**raster.resources, **self._surroundings(own, parameters)}

            def record(timed: bool = False) -> Recorder:
                recorder = own.add(Recorder(device, resources, timed=timed, counted=not timed))
                raster.record_forward(recorder)
                raster.record_backward(recorder)
                return recorder.end()

            stages, fragments, visible = self._draw(raster, record, resources, parameters)
            names: dict = dict(raster.rows.names)
            held = {name: r.nbytes for name, r in resources.items()}
            memory = by_purpose(held | parameters.nbytes())
        finally:
            own.destroy()
        forward = stages["project"] + stages["sort"] + stages["tiles"] + stages["forward draw"]
        backward = stages["backward draw"] + stages["project backward"] + stages["optimizer"]
        total = forward + backward + stages["lists"]
        if names.get("blending") == "lists":
            forward += stages["lists"]
        return Measurement(
            options={"rasterizer": rasterizer, **names, "moments": moments},
            stages=stages,
            forward=forward,
            backward=total - forward,
            total=total,
            visible=visible,
            fragments=fragments,
            memory=memory,
        )

    def _surroundings(self, own: Owned, parameters: Parameters) -> dict[str, Buffer | Image]:
        """What a training session has around its rasterizer. Every plane moves, but not by
        anything."""
        n, degree = len(self.gaussians), self.gaussians.sh_degree
        terms = loss_terms(TrainConfig().flat(), sh_degree=degree, capacity=n)
        of_splats = [o for o in quantities.offsets() if o.quantity.of == "splat"]
        at = [o.first_plane + k for o in of_splats for k in range(o.quantity.planes(degree))]
        moved = contract.struct("PlaneList", count=len(at))
        moved["at"][: len(at)] = at
        planes = quantities.plane_count("splat")
        given = {
            "adam_settings": adam_settings(),
            "loss_terms": terms,
            "term_sums": np.zeros(term_sums_bytes(terms) // 4, np.float32),
            # a rate of 0 would leave a plane at rest
            "rates": np.full(planes, np.finfo(np.float32).tiny, np.float32),
            "moved_planes": moved,
        }
        groups = np.array(plane_groups(len(at), n), np.uint32)
        parameters.resources["indirect"].upload(groups, contract.indirect_offset("planes"))
        sizes = {name: v.nbytes for name, v in given.items()}
        form, size = FORMATS["float32"].vk, (self.width, self.height)
        d_image = own.add(Image(self.device, *size, form, np.float32, "d_image"))
        buffers = allocate_all(self.device, sizes)
        own.add_all(buffers.values())
        for name, values in given.items():
            buffers[name].upload(values)
        return {"d_image": d_image, **buffers}

    def _draw(
        self, raster: Rasterizer, record: Callable, resources: dict, parameters: Parameters
    ) -> tuple[dict, dict, float]:
        """(milliseconds by stage, fragments by draw, visible splats): medians over repeats, means
        over views."""
        timed, counted = record(timed=True), record()
        rng = np.random.default_rng(0)
        frame = frame_data(self.gaussians.sh_degree, BACKGROUND, NEAR)
        frame["bias1"] = frame["bias2"] = 1.0
        stages, fragments, visible = dict.fromkeys(STAGES, 0.0), [], []
        for camera in self.cameras:
            resources["camera"].upload(camera_data(camera))
            resources["frame"].upload(frame)
            resources["d_image"].upload(rng.random((self.height, self.width, 4), np.float32))
            timed.run_once()
            if raster.reserve_pairs():  # for the pairs of this view
                resources |= raster.resources
                timed, counted = record(timed=True), record()
            self._warm_up(timed)
            times = []
            for _ in range(self.repeats + 1):
                timed.run_once()
                times.append(timed.times())
            for name in times[0]:
                stage, ms = stage_of(name), float(np.median([t[name] for t in times[1:]]))
                stages[stage] = stages.get(stage, 0.0) + ms / len(self.cameras)
            counted.run_once()
            fragments.append(counted.fragments())
            visible.append(int(parameters.counts["visible"]))
        means = {n: float(np.mean([f[n] for f in fragments])) for n in fragments[0]}
        return stages, means, float(np.mean(visible))

    def _warm_up(self, frame: Recorder) -> None:
        spent, frames = 0.0, 1
        while spent < (0.0 if self.device.physical.kind == "CPU" else WARM_SECONDS):
            started = time.perf_counter()
            complete(self.device, *[frame] * frames)
            took = time.perf_counter() - started
            spent += took
            frames = max(1, min(_MOST_FRAMES, int(frames * _WARM_BATCH / took)))

    def errors(self, rasterizer: str, options: dict) -> dict[str, float]:
        """Relative L2 of each gradient against that of a float32 target and state with the same
        other options, over all numbers of all splats, of the first view. Splats that are not
        visible have zeros in both.

        Gradients are those of the Python API, with respect to linear scales and opacities in 0..1,
        for uniform random upstream gradients in 0..1. They do not depend on how moments are stored.
        """
        options = {name: value for name, value in options.items() if name != "moments"}
        exact: dict = dict(format="float32", state_format="same", tile_backward="atomic")
        exact |= dict(gradient="analytic", least_transmittance=1e-4)
        known = {f.name for f in fields(BACKENDS[rasterizer].options)}
        exact = options | {name: value for name, value in exact.items() if name in known}
        key = (rasterizer, tuple(sorted(exact.items())))
        if self._reference is None or self._reference[0] != key:
            self._reference = None  # its memory, before more is taken
            self._reference = (key, self._gradients(rasterizer, exact))
        wanted, found = self._reference[1], self._gradients(rasterizer, options)
        return {name: _relative_l2(found[name], wanted[name]) for name in GRADIENTS}

    def _gradients(self, rasterizer: str, options: dict) -> dict[str, np.ndarray]:
        camera = self.cameras[0]
        with Renderer(self.device, rasterizer_named(rasterizer), **options) as renderer:
            renderer.forward(self.gaussians, camera, background=BACKGROUND, near=NEAR)
            rng, shape = np.random.default_rng(0), (camera.height, camera.width, 3)
            return renderer.backward(rng.random(shape, np.float32))


def _relative_l2(found: np.ndarray, wanted: np.ndarray) -> float:
    off, all = (float(np.linalg.norm(v.astype(np.float64))) for v in (found - wanted, wanted))
    return off / all if all else 0.0
