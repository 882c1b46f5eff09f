"""A rasterizer for tensors: splats and a view in, image and gradients out."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from weakref import WeakKeyDictionary

import numpy as np
import torch

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.owned import Owned
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.model.camera import Camera
from hardsplat.raster import tensors
from hardsplat.raster.backends import Backend
from hardsplat.raster.core.frame import camera_data, frame_data
from hardsplat.raster.core.pairs import pairs_wanted
from hardsplat.raster.core.sinks import STORE_ROWS
from hardsplat.settings.raster import Options
from hardsplat.torch.given import PLANES, Given
from hardsplat.torch.links import Link


class Call:
    """A call of `rasterization`, during which the splats stay as they are."""


@dataclass(frozen=True, eq=False)
class SplatTensors:
    """float32 tensors of one device: means (N, 3), quats (N, 4) wxyz, scales (N, 3) linear,
    opacities (N,), sh (N, K, 3)."""

    means: torch.Tensor
    quats: torch.Tensor
    scales: torch.Tensor
    opacities: torch.Tensor
    sh: torch.Tensor
    _keys: dict[Call, dict[str, tuple]] = field(default_factory=dict, init=False)

    @property
    def sh_degree(self) -> int:
        return isqrt(self.sh.shape[1]) - 1

    @property
    def count(self) -> int:
        return self.means.shape[0]

    def keys(self, call: Call) -> dict[str, tuple]:
        """A key by tensor, another one where a number may have changed while the tensor lives.

        call: of `rasterization`. Two calls have different keys, since fused optimizers and changes
        through `.data` leave a tensor's version as it is."""
        if call not in self._keys:
            tensors = ((name, getattr(self, name)) for name in PLANES)
            found = {name: (call, t.data_ptr(), t.shape, t.stride()) for name, t in tensors}
            self._keys[call] = found
        return self._keys[call]


@dataclass(frozen=True, eq=False)
class RecordedFrame:
    """A view of splats."""

    camera: Camera
    sh_degree: int
    near: float
    call: Call


class Engine:
    """Buffers and recorded commands, which grow with splats and pixels; one thread at a time."""

    def __init__(self, link: Link, backend: Backend, options: Options):
        self.link, self._backend, self._options = link, backend, options
        self.lock = link.lock
        self._parts = Owned()
        self._key: tuple | None = None
        self._count = -1  # splats that the device knows of
        self._given_keys: dict[str, tuple] = {}  # of the tensors that it reads
        self._views: dict[str, Buffer] = {}  # what an engine has besides what draws
        self._structs: dict[str, bytes] = {}  # what the device has in `camera` and `frame`
        self._out = self._d = torch.zeros(0)  # `image_out` and `d_image_in`, in place
        self._counts = np.zeros(0)  # `counts_seen`, in place
        self._watched: Call | None = None  # whose image `counts_seen` will be of
        # pairs that an image of a call requested, and the smaller capacity that there was
        self._short: WeakKeyDictionary[Call, tuple[int, int]] = WeakKeyDictionary()
        # whose forward pass is still there for a backward pass
        self._drawn: tuple[SplatTensors, RecordedFrame] | None = None

    def give(self, splats: SplatTensors, width: int, height: int, call: Call) -> None:
        """Hands the device what it does not have yet of these splats, for an image of width x
        height px. `draw` does so too, if it must; this is for giving them early."""
        with self.lock:
            self.link.enter()
            self._fit(splats.count, splats.sh_degree, width, height)
            self._give(splats, call)

    def draw(self, splats: SplatTensors, frame: RecordedFrame) -> tuple[torch.Tensor, torch.Tensor]:
        """(H, W, 3) colours without the background, (H, W) transmittance behind the last splat.
        Both are copies. `confirm` reports whether they are complete."""
        with self.lock:
            camera = frame.camera
            self._drawn = None
            self.give(splats, camera.width, camera.height, frame.call)
            settings = frame_data(frame.sh_degree, (0.0, 0.0, 0.0), frame.near)
            for name, data in (("camera", camera_data(camera)), ("frame", settings)):
                if self._structs.get(name) != (raw := data.tobytes()):
                    self.link.write(self._views[name], raw)
                    self._structs[name] = raw
            self._splats.write_table()
            self._note_pairs()
            self.link.run(
                self._forward, self._forward_rest, watched=bool(self._raster.pair_capacity)
            )
            self._watched = frame.call if self._raster.pair_capacity else None
            self._drawn = splats, frame
            colors, T = _parted(self._out, camera)
            return colors.clone(), T.clone()

    def confirm(self, call: Call) -> bool:
        """Whether all images of a call are complete: the device alone counts pairs of tile and
        splat. Where they are not, the capacity has grown: draw them again."""
        with self.lock:
            self._note_pairs()
            if not (short := self._short.pop(call, None)):
                return True
            wanted, capacity = short
            if self._raster.reserve_pairs(wanted):
                self._drawn = None
                self._record_again()
                return False
            return self._raster.pair_capacity == capacity  # else another call let it grow

    def _note_pairs(self) -> None:
        """Notes the pairs that the last image requested, if they exceeded the capacity."""
        if self._watched is not None:
            self.link.land()
            call, self._watched = self._watched, None
            if (wanted := pairs_wanted(self._counts[0])) > self._raster.pair_capacity:
                self._short[call] = (
                    max(wanted, self._short.get(call, (0, 0))[0]),
                    self._raster.pair_capacity,
                )

    def gradients(
        self,
        splats: SplatTensors,
        frame: RecordedFrame,
        d_image: torch.Tensor | None,
        d_T: torch.Tensor | None,
    ) -> tuple[torch.Tensor, ...]:
        """Gradients for the tensors of `splats`, of those of what `draw` returned: (H, W, 3),
        (H, W)."""
        with self.lock:
            drawn, keys = self._drawn, splats.keys(frame.call)
            there = drawn is not None and drawn[1] is frame and drawn[0].keys(frame.call) == keys
            if not there or self._given_keys != keys:
                self.draw(splats, frame)
                while not self.confirm(frame.call):
                    self.draw(splats, frame)
            self._drawn = None  # the backward pass uses up what the forward leaves it
            self.link.enter()
            found = self._splats.lend({name: getattr(splats, name).shape for name in PLANES})
            self._splats.write_table()
            for place, d in zip(_parted(self._d, frame.camera), (d_image, d_T)):
                place.zero_() if d is None else place.copy_(d)
            self.link.run(self._backward)
            return found()

    def _give(self, splats: SplatTensors, call: Call) -> None:
        before, keys = self._given_keys, splats.keys(call)
        self._given_keys = {}  # until all of it is there
        for name, key in keys.items():
            if key != before.get(name):
                self._splats.give(name, getattr(splats, name))
        if self._count != splats.count:
            self._count = splats.count
            self._splats.set_count(self._count)
        self._given_keys = keys

    def _fit(self, n: int, sh_degree: int, width: int, height: int) -> None:
        """Makes buffers and command buffers for this size, or keeps those there are where they have
        room for it."""
        wanted = (capacity := max(n, 1)), sh_degree, width, height
        if self._key:
            if all(has >= least for has, least in zip(self._key, wanted)):
                return
            sh_degree, width, height = (max(two) for two in zip(self._key[1:], wanted[1:]))
        self.release()
        device, own = self.link.device, self._parts.add
        sizes = {name: contract.itemsize(name) for name in ("camera", "frame")}
        sizes |= dict.fromkeys(("image_out", "d_image_in"), 16 * width * height)
        try:
            self._splats = own(Given(self.link, capacity, sh_degree))
            drawn = self._splats, width, height, self._options
            self._raster = own(self._backend.rasterizer(device, *drawn, sink=STORE_ROWS))
            for name, size in sizes.items():
                self._views[name] = own(self.link.buffer(size, name))
            self._out = self.link.tensor(self._views["image_out"], (4 * width * height,))
            self._d = self.link.tensor(self._views["d_image_in"], (4 * width * height,))
            seen = Buffer(device, contract.itemsize("counts"), "counts_seen", host=True)
            self._views["counts_seen"] = own(seen)
            self._counts = seen.array(contract.dtype("Counts"))
            self._record()
        except BaseException:
            self.release()
            raise
        self._key = capacity, sh_degree, width, height

    def _record(self) -> None:
        resources = {**self._raster.resources, **self._views}
        recorders = [self._parts.add(Recorder(self.link.device, resources)) for _ in range(3)]
        self._forward, self._forward_rest, self._backward = recorders
        run = build_all(self.link.device, tensors.PASSES)
        canvas = (self._raster.width, self._raster.height)
        self._raster.record_forward(self._forward, rest=self._forward_rest)
        self._forward.copy("counts", "counts_seen")
        self._forward_rest.run(run["image out"], threads=canvas)
        self._backward.run(run["d_image in"], threads=canvas)
        self._raster.record_backward(self._backward)
        for recorder in recorders:
            recorder.end()

    def _record_again(self) -> None:
        self.link.settle()
        for recorder in (self._forward, self._forward_rest, self._backward):
            self._parts.drop(recorder)
        self._record()

    def release(self) -> None:
        """Frees what it holds on the device."""
        with self.lock:
            self._out = self._d = torch.zeros(0)
            self.link.settle()
            self._parts.destroy()
            self._key = self._drawn = self._watched = None
            self._count = -1
            self._given_keys, self._structs, self._views = {}, {}, {}
            self._counts = np.zeros(0)


def _parted(flat: torch.Tensor, camera: Camera) -> tuple[torch.Tensor, torch.Tensor]:
    """Colours (H, W, 3) and transmittance (H, W) of `image_out`, or their gradients."""
    size = camera.height, camera.width
    pixels = camera.height * camera.width
    return flat[: 3 * pixels].view(*size, 3), flat[3 * pixels : 4 * pixels].view(size)
