"""One rasterizer for tensors: splats and a view in, image and gradients out."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import torch

from hardsplat import contract, trained
from hardsplat.camera import Camera
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster import Backend
from hardsplat.raster.frame import camera_row, frame_row
from hardsplat.raster.options import Options
from hardsplat.raster.parameters import Parameters, pairs_wanted
from hardsplat.raster.sinks import STORE
from hardsplat.torch.links import Link

_GIVEN = ("means", "quats", "log_scales", "logit_opacities", "sh0", "shN")  # quantities that tensors are given for


@dataclass(frozen=True, eq=False)
class Splats:
    """float32 tensors of one device: means (N, 3), quats (N, 4) wxyz, scales (N, 3) linear, opacities (N,), sh (N, K, 3)."""

    means: torch.Tensor
    quats: torch.Tensor
    scales: torch.Tensor
    opacities: torch.Tensor
    sh: torch.Tensor

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return self.means, self.quats, self.scales, self.opacities, self.sh

    @property
    def sh_degree(self) -> int:
        return int(np.sqrt(self.sh.shape[1])) - 1

    @property
    def key(self) -> tuple:
        """Another one where a number may have changed, as long as these tensors live."""
        return tuple((t.data_ptr(), object() if t.is_inference() else t._version, t.shape, t.stride()) for t in self.tensors)

    def planes(self) -> dict[str, list[torch.Tensor]]:
        """What is trained, by name: (N, width) a plane."""
        logits = torch.special.logit(self.opacities.double().clamp(1e-7, 1 - 1e-7)).float()
        sh = list(self.sh.unbind(1))
        return {"means": [self.means], "quats": [self.quats], "log_scales": [self.scales.log()], "logit_opacities": [logits[:, None]], "sh0": sh[:1], "shN": sh[1:]}

    def gradients(self, planes: dict[str, list[torch.Tensor]]) -> tuple[torch.Tensor, ...]:
        """Those of `tensors`, from gradients of `planes`, as copies; zero where these are, whatever the slope."""
        d_log_scales, d_logits = planes["log_scales"][0], planes["logit_opacities"][0][:, 0]
        zero, o = torch.zeros((), device=d_logits.device), self.opacities.double().clamp(1e-7, 1 - 1e-7)
        d_scales = torch.where(d_log_scales == 0, zero, d_log_scales / self.scales)
        d_opacities = torch.where(d_logits == 0, zero, (d_logits / (o * (1 - o))).float())
        return planes["means"][0].clone(), planes["quats"][0].clone(), d_scales, d_opacities, torch.stack([*planes["sh0"], *planes["shN"]], dim=1)


@dataclass(frozen=True, eq=False)
class Shot:
    """A view of splats. background: (3,), behind the splats."""

    camera: Camera
    sh_degree: int
    background: np.ndarray
    near: float


class Engine:
    """Holds buffers and recorded commands, which grow with splats and pixels. Its methods take turns among threads."""

    def __init__(self, link: Link, backend: Backend, options: Options):
        self.link, self._backend, self._options = link, backend, options
        self.lock = threading.RLock()
        self._parts: list = []  # what release() destroys, last first
        self._key: tuple | None = None
        self._given: Splats | None = None  # whose numbers the planes hold
        self._given_key: tuple = ()
        self._out = self._d = torch.zeros(0)  # (height, width, 4) of `image_out` and `d_image_in`, in place
        self._drawn: tuple[Splats, Shot] | None = None  # whose forward pass is still there for a backward pass

    # -- one view

    def draw(self, splats: Splats, shot: Shot) -> torch.Tensor:
        """(H, W, 4): colours without the background, and the transmittance behind the last splat. A copy."""
        with self.lock:
            camera = shot.camera
            self._drawn = None
            self._fit(len(splats.means), splats.sh_degree, camera.width, camera.height)
            if self._given is None or self._given_key != splats.key:
                self.link.wait()  # who reads what is about to be replaced
                self._give(splats)
            self.link.wait()
            self._views["camera"].array()[:] = np.frombuffer(camera_row(camera).tobytes(), np.uint8)
            self._views["frame"].array()[:] = np.frombuffer(frame_row(shot.sh_degree, shot.background, shot.near).tobytes(), np.uint8)
            self.link.run(self._forward)
            if self._raster.room:  # pairs of tile and splat, whose number the device alone knows
                self.link.wait()
                counts = self._views["counts_seen"].array(contract.dtype("Counts"))[0]
                if self._raster.make_room(pairs_wanted(counts)):
                    self._record_again()
                    self.link.run(self._forward)
            self._drawn = splats, shot
            return self._out[: camera.height, : camera.width].clone()

    def gradients(self, splats: Splats, shot: Shot, d_image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Of sum(d_image * image), for the tensors of `splats`. d_image: (H, W, 3)."""
        with self.lock:
            drawn, self._drawn = self._drawn, None  # the backward pass uses up what the forward leaves it
            if drawn is None or drawn[1] is not shot or drawn[0].key != splats.key or self._given_key != splats.key:
                self.draw(splats, shot)
                self._drawn = None
            height, width = shot.camera.height, shot.camera.width
            if (height, width) != self._d.shape[:2]:
                self._d.zero_()
            self._d[:height, :width, :3] = d_image
            self.link.run(self._backward)
            n = len(splats.means)
            return splats.gradients({name: self.link.get(self._parameters, trained.QUANTITIES[name], n) for name in _GIVEN})

    def _give(self, splats: Splats) -> None:
        for name, planes in splats.planes().items():
            self.link.put(self._parameters, trained.QUANTITIES[name], planes)
        if self._given is None or len(self._given.means) != len(splats.means):
            self._parameters.set_count(len(splats.means))
        self._given, self._given_key = splats, splats.key

    # -- buffers and commands

    def _fit(self, n: int, sh_degree: int, width: int, height: int) -> None:
        """Makes buffers and command buffers for this size, or keeps those there are where they have room for it."""
        capacity = max(n, 1)
        if self._key and self._key[1] == sh_degree and all(has >= wanted for has, wanted in zip(self._key, (capacity, 0, width, height))):
            return
        if self._key and self._key[1] == sh_degree:
            width, height = max(width, self._key[2]), max(height, self._key[3])
        self.release()
        device = self.link.device
        try:
            self._parameters = self._part(Parameters(device, capacity, sh_degree, gradients="all", shared=self.link.shared))
            self._begin_others(capacity)
            self._raster = self._part(self._backend.rasterizer(device, self._parameters, width, height, self._options, sink=STORE))
            sizes = {"camera": contract.itemsize("camera"), "frame": contract.itemsize("frame"), "counts_seen": contract.itemsize("counts")}
            self._views = {name: self._part(Buffer(device, size, name, host=True)) for name, size in sizes.items()}
            exchanged = {name: self._part(self.link.buffer(16 * width * height, name)) for name in ("image_out", "d_image_in")}
            self._views |= exchanged
            self._out, self._d = (self.link.tensor(buffer, (height, width, 4)) for buffer in exchanged.values())
            self._d.zero_()
            self._record()
        except BaseException:
            self.release()
            raise
        self._key = capacity, sh_degree, width, height

    def _begin_others(self, capacity: int) -> None:
        """First values of what is trained besides what tensors are given for."""
        for q in trained.of("splat"):
            if q.name not in _GIVEN:
                self._parameters.write(q.name, np.full((q.planes(self._parameters.sh_degree), capacity, q.width), q.first, np.float32))

    def _record(self) -> None:
        resources = {**self._raster.resources, **self._views}
        self._forward = self._part(Recorder(self.link.device, resources))
        self._raster.record_forward(self._forward)
        self._forward.copy("target", "image_out")
        self._forward.copy("counts", "counts_seen")
        self._forward.end()
        self._backward = self._part(Recorder(self.link.device, resources))
        self._backward.copy("d_image_in", "d_image")
        self._raster.record_backward(self._backward)
        self._backward.end()

    def _record_again(self) -> None:
        for recorder in (self._forward, self._backward):
            self._parts.remove(recorder)
            recorder.destroy()
        self._record()

    def _part(self, part):
        self._parts.append(part)
        return part

    def release(self) -> None:
        """Frees what it holds on the device."""
        with self.lock:
            self._out = self._d = torch.zeros(0)
            self.link.forget()
            for part in reversed(self._parts):
                part.destroy()
            self._parts = []
            self._key = self._given = self._drawn = None
